package deadletters

import (
	"slices"
	"sync"
)

// plans keeps the plans of the runs that are going on, so that a step need not make it again. One that is
// not here any more is made anew, from what is left.
type plans struct {
	mu   sync.Mutex
	kept []keptPlan // the oldest first
}

type keptPlan struct {
	run  string
	plan *plan
}

// take gives the run's plan to one step.
func (p *plans) take(run string) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, kept := range p.kept {
		if kept.run == run {
			p.kept = slices.Delete(p.kept, i, i+1)
			return kept.plan
		}
	}
	return nil
}

func (p *plans) keep(run string, plan *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if plan == nil {
		return
	}
	if len(p.kept) >= maxPlans {
		p.kept = slices.Delete(p.kept, 0, 1)
	}
	p.kept = append(p.kept, keptPlan{run, plan})
}
