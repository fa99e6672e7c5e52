package rebuild

import "time"

// meter tells the rate since it was made.
type meter struct {
	now   func() time.Time
	began time.Time
	from  int64
}

func newMeter(now func() time.Time, from int64) meter {
	return meter{now: now, began: now(), from: from}
}

func (m meter) perSecond(at int64) float64 {
	took := m.now().Sub(m.began).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(at-m.from) / took
}

func (m meter) progress(run Run) Progress {
	p := Progress{
		Phase: run.Phase, Generation: run.Generation, Models: run.Models, Broken: run.Broken,
		Total: run.total(), Done: run.total() - run.left(), PerSecond: m.perSecond(run.Records),
	}
	p.Left = estimate(run.left(), p.PerSecond)
	return p
}

// estimate is how long the rest takes at the rate; negative where that is not known.
func estimate(left int64, perSecond float64) time.Duration {
	switch {
	case left <= 0:
		return 0
	case perSecond <= 0:
		return -1
	}
	return time.Duration(float64(left) / perSecond * float64(time.Second))
}
