package promo

import (
	"context"
	"log/slog"
	"time"
)

// SamplerConfig is what a sampler needs.
type SamplerConfig struct {
	Desk    *Desk
	Store   Store
	Process string // its name, for this run of it
	// Count gives what this process did since it started; of a promo that is on, what is measured too.
	Count  func(ctx context.Context, promo State) (Sample, error)
	Now    func() time.Time
	Logger *slog.Logger
}

// Sampler keeps what this process does during a promo, by slots. What could not be kept is added to the next slot.
type Sampler struct {
	config SamplerConfig
	promo  string    // the one that the rest belongs to; empty: none
	before Sample    // what is counted in samples that are kept
	taken  time.Time // the last one of these
	slot   time.Time
	kept   Sample // of the slot
	wrong  string
}

// NewSampler makes a sampler.
func NewSampler(config SamplerConfig) *Sampler { return &Sampler{config: config} }

// sampleLimit bounds one sample.
const sampleLimit = SlotLength / 2

// Run samples until ctx ends, and once more then.
func (s *Sampler) Run(ctx context.Context) error {
	for {
		timer := time.NewTimer(s.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
			s.sample(context.WithoutCancel(ctx), true) // what this process did last
			return nil
		case <-timer.C:
			s.sample(ctx, false)
		}
	}
}

// sampleWatch is how soon a sampler sees that a promo is switched.
const sampleWatch = time.Second

// pause is until the slot ends, or the promo begins or ends, or may have been switched.
func (s *Sampler) pause() time.Duration {
	now := s.config.Now()
	pause := min(sampleWatch, now.Truncate(SlotLength).Add(SlotLength).Sub(now))
	kept := s.config.Desk.Kept()
	for _, moment := range []time.Time{kept.From, kept.Until} {
		if left := moment.Sub(now); left > 0 {
			pause = min(pause, left)
		}
	}
	return pause
}

func (s *Sampler) sample(ctx context.Context, last bool) {
	bounded, cancel := context.WithTimeout(ctx, sampleLimit)
	defer cancel()
	err := s.take(bounded, last)
	fault := ""
	if err != nil {
		if fault = err.Error(); fault != s.wrong {
			s.config.Logger.WarnContext(ctx, "promo: what this process did was not kept; it will be with the next slot", "error", fault)
		}
	}
	s.wrong = fault
}

func (s *Sampler) take(ctx context.Context, last bool) error {
	now := s.config.Now()
	kept := s.config.Desk.Kept()
	phase := kept.At(now)
	if phase != On && s.promo == "" {
		return nil
	}
	if phase == On && s.promo != kept.ID { // it begins here
		counted, err := s.config.Count(ctx, State{})
		if err == nil {
			s.promo, s.before, s.taken, s.slot, s.kept = kept.ID, counted, now, time.Time{}, Sample{}
		}
		return err
	}
	slot := s.taken.Truncate(SlotLength).UTC()
	if phase == On && !last && now.Before(slot.Add(SlotLength)) {
		return nil // the slot goes on
	}
	counted, err := s.config.Count(ctx, kept)
	if err != nil {
		return err
	}
	sample := counted.Since(s.before)
	sample.Seconds = now.Sub(s.taken).Seconds()
	if slot.Equal(s.slot) { // a part of it was kept already
		sample = s.kept.Plus(sample)
	}
	if err := s.config.Store.AddSample(ctx, s.promo, slot, s.config.Process, sample); err != nil {
		return err
	}
	s.before, s.taken, s.slot, s.kept = counted, now, slot, sample
	if phase != On {
		s.promo = ""
	}
	return nil
}
