package queries_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"andes/commands/partner"
	"andes/queries"
)

// fakePartners knows every partner whose id is not "nobody".
type fakePartners struct {
	read func(ctx context.Context) error

	mu    sync.Mutex
	reads int
}

func (p *fakePartners) Partner(ctx context.Context, id string) (partner.State, bool, error) {
	p.mu.Lock()
	p.reads++
	version := p.reads
	p.mu.Unlock()
	if p.read != nil {
		if err := p.read(ctx); err != nil {
			return partner.State{}, false, err
		}
	}
	return partner.State{ID: id, Name: fmt.Sprint("read ", version)}, id != "nobody", nil
}

func cached(t *testing.T, source *fakePartners, most int) *queries.CachedPartners {
	t.Helper()
	config := queries.DefaultCachedPartnersConfig()
	config.Source, config.Now, config.Max = source, time.Now, most
	partners, err := queries.NewCachedPartners(config)
	if err != nil {
		t.Fatal(err)
	}
	return partners
}

func nameOf(t *testing.T, partners *queries.CachedPartners, id string) string {
	t.Helper()
	state, exists, err := partners.Partner(t.Context(), id)
	switch {
	case err != nil:
		return err.Error()
	case !exists:
		return "unknown"
	}
	return state.Name
}

func TestAPartnerIsReadOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakePartners{}
		partners := cached(t, source, 10)
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, "read 1"}, {59 * time.Second, "read 1"}, {time.Second, "read 2"}, {0, "read 2"}} {
			time.Sleep(step.after)
			if got := nameOf(t, partners, "p"); got != step.want {
				t.Errorf("%s later: %s, want %s", step.after, got, step.want)
			}
		}
	})
}

func TestAnUnknownPartnerIsAskedForSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakePartners{}
		partners := cached(t, source, 10)
		for range 3 {
			if got := nameOf(t, partners, "nobody"); got != "unknown" {
				t.Error(got)
			}
		}
		time.Sleep(queries.DefaultCachedPartnersConfig().AbsentTTL)
		nameOf(t, partners, "nobody")
		if source.reads != 2 {
			t.Errorf("%d reads, want 2", source.reads)
		}
	})
}

func TestAKnownPartnerSurvivesAFailingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakePartners{}
		partners := cached(t, source, 10)
		nameOf(t, partners, "p")
		source.read = func(context.Context) error { return errBroken }
		time.Sleep(2 * time.Minute)
		for range 5 {
			if got := nameOf(t, partners, "p"); got != "read 1" {
				t.Errorf("while the source fails: %s", got)
			}
		}
		if source.reads != 2 {
			t.Errorf("a failing source is asked %d times at once", source.reads-1)
		}
		if got := nameOf(t, partners, "other"); got != "broken" {
			t.Errorf("a partner that was never read: %s", got)
		}
		source.read = nil
		time.Sleep(queries.DefaultCachedPartnersConfig().RetryAfter)
		if got := nameOf(t, partners, "p"); got == "read 1" {
			t.Error("it is not read again")
		}
		source.read = func(context.Context) error { return errBroken }
		time.Sleep(queries.DefaultCachedPartnersConfig().KeepFor + time.Minute)
		if got := nameOf(t, partners, "p"); got != "broken" {
			t.Errorf("used beyond its time: %s", got)
		}
	})
}

func TestManyAskingForOnePartnerAreOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		source := &fakePartners{read: func(context.Context) error { <-release; return nil }}
		partners := cached(t, source, 10)
		var wait sync.WaitGroup
		for range 30 {
			wait.Go(func() {
				if got := nameOf(t, partners, "p"); got != "read 1" {
					t.Error(got)
				}
			})
		}
		synctest.Wait()
		close(release)
		wait.Wait()
		partners.Close()
	})
}

func TestTheNumberOfKeptPartnersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakePartners{}
		partners := cached(t, source, 2)
		for _, id := range []string{"a", "b", "c"} {
			nameOf(t, partners, id)
		}
		before := source.reads
		for _, id := range []string{"a", "b", "c"} {
			nameOf(t, partners, id)
		}
		if source.reads == before {
			t.Error("three are kept, two is the bound")
		}
	})
}
