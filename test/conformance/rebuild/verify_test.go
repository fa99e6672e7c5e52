package rebuild_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"andes/projections"
	"andes/rebuild"
	"andes/test/redistest"
)

// key is where an entry is in Redis.
func (w *world) key(generation int, entryKey string) string {
	w.t.Helper()
	raw := redistest.Raw(w.t, w.redis.Addrs...)
	for cursor := uint64(0); ; {
		page, err := raw.Do(w.t.Context(), raw.B().Scan().Cursor(cursor).Match(w.redis.Prefix+"{*}*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, key := range page.Elements {
			if strings.HasSuffix(key, fmt.Sprintf("}%d:%s", generation, entryKey)) {
				return key
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			w.t.Fatalf("generation %d has no %s", generation, entryKey)
		}
	}
}

func (w *world) damage(words ...string) {
	w.t.Helper()
	raw := redistest.Raw(w.t, w.redis.Addrs...)
	if err := raw.Do(w.t.Context(), raw.B().Arbitrary(words...).Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		w.t.Fatal(err)
	}
}

// apply puts an entry into the serving generations that no state stands behind.
func (w *world) apply(key string, position int64, value string) {
	w.t.Helper()
	if err := w.model.Apply(w.t.Context(), []projections.Entry{{Key: key, Position: position, Value: []byte(value)}}); err != nil {
		w.t.Fatal(err)
	}
}

func TestVerifyNamesWhatDiffersAndRepairMendsJustThat(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(300)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{})
	w.expectSame()
	untouched := w.text("product:" + sku(250))

	w.damage("DEL", w.key(2, "stock:"+sku(1)))
	w.damage("SET", w.key(2, "price:retail|"+sku(2)), "1 1 GBP 1") // an old position
	same := w.text("stock:" + sku(3))
	w.damage("SET", w.key(2, "stock:"+sku(3)), strings.Fields(same)[0]+" 999999 5") // another value at its position
	w.damage("SET", w.key(2, "stock:"+sku(4)), "99999999 4 5")                      // from the future
	w.damage("SET", w.key(2, "product:"+sku(5)), "no position at all")
	w.apply("stock:"+sku(9999), 7, "1 1") // nobody sells it
	w.apply("stock:{odd|sku}", 8, "1 1")

	want := []string{
		"different price:retail|" + sku(2), "different product:" + sku(5), "different stock:" + sku(3), "different stock:" + sku(4),
		"extra stock:" + sku(9999), "extra stock:{odd|sku}", "missing stock:" + sku(1),
	}
	if got := w.differing(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	report, err := w.rebuilder(nil).Verify(t.Context(), rebuild.Check{Repair: true, Actor: "an operator"})
	if err != nil || report.Mended() != int64(len(want)) || report.Differing() != 0 {
		t.Errorf("the repair reports %+v, %v", report, err)
	}
	for _, d := range report.Differences {
		if d.Key == "stock:"+sku(4) && (d.HasPosition != 99999999 || d.WantPosition <= 0 || d.Has != "4 5" || !d.Mended) {
			t.Errorf("%+v", d)
		}
	}
	w.expectSame()
	if now := w.text("product:" + sku(250)); now != untouched {
		t.Errorf("what was right was changed from %q to %q", untouched, now)
	}
}

// text is what the serving generation has under a key.
func (w *world) text(key string) string {
	w.t.Helper()
	named, err := w.client.Generations(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	kept, err := w.model.Kept(w.t.Context(), named.Of(projections.ModelOf(key)).Serving, []string{key})
	if err != nil {
		w.t.Fatal(err)
	}
	return kept[0].Text
}

func TestEqualContentsHaveEqualDigests(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(50)
	w.publish(w.set.Categories()...)
	digest := func() string {
		w.rebuild(rebuild.Request{})
		report, err := w.rebuilder(nil).Verify(t.Context(), rebuild.Check{Models: []string{"stock"}})
		if err != nil || len(report.Models) != 1 || report.Models[0].Keys != 50 {
			t.Fatalf("%+v, %v", report, err)
		}
		return report.Models[0].Digest
	}
	first, second := digest(), digest()
	w.execute(level(sku(0), 1000, 2))
	w.publish("stock")
	if third := digest(); first != second || third == first {
		t.Errorf("digests %s, %s, and after a change %s", first, second, third)
	}
}

func TestOnlyTheNamedSKUsAreMended(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(10)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{})
	for _, key := range []string{"stock:" + sku(1), "price:retail|" + sku(1), "product:" + sku(1), "stock:" + sku(2)} {
		w.damage("DEL", w.key(2, key))
	}
	w.apply("stock:ghost", 7, "1 1")
	report, err := w.rebuilder(nil).Verify(t.Context(), rebuild.Check{Only: []string{sku(1), "ghost"}, Repair: true})
	if err != nil || report.Mended() != 4 || report.Differing() != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if got := strings.Join(w.differing(), ","); got != "missing stock:"+sku(2) {
		t.Errorf("left is %q", got)
	}
}

func TestTooManyDifferencesEndTheCheckSoon(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(100)
	w.publish(w.set.Categories()...)
	w.rebuild(rebuild.Request{})
	w.damage("DEL", w.redis.Prefix+"generation") // nothing is left that the new pointer names
	report, err := w.rebuilder(nil).Verify(t.Context(), rebuild.Check{Limit: 20, Repair: true})
	if err != nil || !report.Stopped || report.Mended() != 0 || report.Differing() < 20 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Changes go on while every key is compared, a few of them all the time.
func TestVerifyRaisesNoFalseAlarmWhileChangesGoOn(t *testing.T) {
	t.Parallel()
	w := open(t, choice{})
	w.fill(500)
	w.relay()
	w.feed()
	w.settleFeed()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := w.changes(ctx, func(n int) string {
		if n%2 == 0 {
			return sku(7) // never at rest
		}
		return sku(rand.IntN(600)) // some are new
	})
	patient := w.rebuilder(func(c *rebuild.Config) { c.Patience = livePatience })
	for range 5 {
		report, err := patient.Verify(t.Context(), rebuild.Check{})
		if err != nil || len(report.Differences) > 0 {
			t.Errorf("%+v, %v", report.Differences, err)
		}
	}
	stop()
	w.settleFeed()
}
