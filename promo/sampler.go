package promo

import (
	"context"
	"errors"
	"fmt"
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

// Sampler keeps what this process does, by slots: during a promo, and while none is on, so that the next one can be
// compared with the time before. What could not be kept is added to the next slot.
type Sampler struct {
	config SamplerConfig
	promo  State     // the one that the rest belongs to; zero: none is on
	before Sample    // what is counted in samples that are kept
	taken  time.Time // the last one of these; zero: nothing was counted yet
	slot   time.Time
	kept   Sample // of the slot
	forgot time.Time
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
	on := s.config.Desk.Kept().Effect(now)
	slot := s.taken.Truncate(SlotLength).UTC()
	began := !s.taken.IsZero()
	if began && on.ID == s.promo.ID && !last && now.Before(slot.Add(SlotLength)) {
		return nil // the slot goes on
	}
	counted, err := s.config.Count(ctx, s.promo)
	if err != nil {
		return err
	}
	if !began {
		s.promo, s.before, s.taken = on, counted, now
		return nil
	}
	sample := counted.Since(s.before)
	sample.Seconds = now.Sub(s.taken).Seconds()
	if slot.Equal(s.slot) { // a part of it was kept already
		sample = s.kept.Plus(sample)
	}
	err = s.config.Store.AddSample(ctx, s.promo.ID, slot, s.config.Process, sample)
	if begins := s.promo.ID == Quiet && on.ID != Quiet; err != nil && !begins { // what was before a promo must not pass for a part of it
		return err
	}
	s.before, s.taken, s.slot, s.kept = counted, now, slot, sample
	if on.ID != s.promo.ID {
		s.promo, s.slot, s.kept = on, time.Time{}, Sample{}
	}
	return errors.Join(err, s.forget(ctx, now))
}

// How long the samples of no promo are kept, and how often they are looked at for that.
const (
	quietFor    = 2*MaxLength + time.Hour // the longest promo, as long before it, and its report
	forgetEvery = 10 * time.Minute
)

// forget lets go what no promo will be compared with.
func (s *Sampler) forget(ctx context.Context, now time.Time) error {
	if now.Before(s.forgot.Add(forgetEvery)) {
		return nil
	}
	if err := s.config.Store.ForgetSamples(ctx, now.Add(-quietFor).UTC()); err != nil {
		return fmt.Errorf("old samples are there yet: %w", err)
	}
	s.forgot = now
	return nil
}
