package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// illOMS: what fails for a passing reason climbs the retry topics by itself; an operator only looks on.
func (d *drill) illOMS(ctx context.Context) error {
	const orders = 3
	d.scene("The OMS is ill")
	d.say("Every call to the OMS fails from now on.")
	if err := d.turn(ctx, "knobs", "oms", "failureRate=1"); err != nil {
		return err
	}
	for range orders {
		if err := d.order(ctx, d.skus[0]); err != nil {
			return err
		}
	}
	d.say("%d orders are placed all the same. Their registrations climb from one retry topic to the next:", orders)
	if err := d.watch(ctx, "a registration is in the second retry topic", "andes_consumer_retries_total", `consumer="oms"`, func(v values) bool {
		return len(v.above(0)) >= 2
	}); err != nil {
		return err
	}
	d.say("The OMS is well again. Nothing else has to be done: each order is registered, once.")
	if err := d.mendOMS(ctx); err != nil {
		return err
	}
	return d.awaitAll(ctx, stateDelivered)
}

// poison: what can't succeed goes to the DLQ at once, and what comes later for the same order waits behind it.
func (d *drill) poison(ctx context.Context) error {
	bad, good := d.skus[1], d.skus[0]
	d.scene("A message that can't succeed")
	d.say("The OMS lacks the article %s and refuses orders of it: no retry can help.", bad)
	if err := d.turn(ctx, "knobs", "oms", "unknownSku="+bad); err != nil {
		return err
	}
	before, err := d.metric(ctx, "andes_dlq_depth", `consumer="oms"`)
	if err != nil {
		return err
	}
	var poisoned []*placed
	for range 3 {
		if err := d.order(ctx, bad); err != nil {
			return err
		}
		poisoned = append(poisoned, d.last())
	}
	if err := d.order(ctx, good); err != nil {
		return err
	}
	if err := d.watch(ctx, "three letters lie in the DLQ, and the alert's condition holds", "andes_dlq_depth", `consumer="oms"`, func(v values) bool {
		return v.sum() == before.sum()+3
	}); err != nil {
		return err
	}
	d.say("The order of another article passed them. One of the three is cancelled meanwhile: the command to the OMS waits\n# behind the registration, whose key it has.")
	if err := d.cancelOrder(ctx, poisoned[2]); err != nil {
		return err
	}
	if err := d.watch(ctx, "the fourth letter is behind the third", "andes_dlq_depth", `consumer="oms"`, func(v values) bool { return v.sum() == before.sum()+4 }); err != nil {
		return err
	}
	if err := d.run(ctx, "dlq", "stats", "oms"); err != nil {
		return err
	}
	listed, err := d.show(ctx, d.andes, "dlq", "list", "oms")
	if err != nil {
		return err
	}
	letter := letterOf(listed)
	if letter == "" {
		return errors.New("no letter is listed")
	}
	if err := d.run(ctx, "dlq", "show", letter); err != nil {
		return err
	}
	d.say("What would a replay do now?")
	if err := d.run(ctx, "dlq", "replay", "oms", "--all", "--dry-run"); err != nil {
		return err
	}
	d.say("The article is added to the OMS, and the letters are sent back.")
	if err := d.turn(ctx, "knobs", "oms", "unknownSku="); err != nil {
		return err
	}
	if err := d.run(ctx, "dlq", "replay", "oms", "--all", "--reason", "the article is in the OMS now"); err != nil {
		return err
	}
	if err := d.awaitAll(ctx, ""); err != nil {
		return err
	}
	if err := d.run(ctx, "dlq", "stats", "oms"); err != nil {
		return err
	}
	return d.run(ctx, "audit", "--limit", "5")
}

// letterOf gives the first letter in a list.
func letterOf(list string) string {
	for word := range strings.FieldsSeq(list) {
		if strings.HasPrefix(word, "oms/") {
			return word
		}
	}
	return ""
}

// cancelOrder takes an order back while the OMS is not told of it yet.
func (d *drill) cancelOrder(ctx context.Context, o *placed) error {
	return d.channel.into(ctx, "POST", "/v1/orders/"+o.id+"/cancel", nil, nil)
}

// lostReadModel: partners read on from PostgreSQL while Redis is empty, and get it back.
func (d *drill) lostReadModel(ctx context.Context) error {
	d.scene("Redis loses everything, under load")
	readers := d.readOn(ctx)
	if err := d.emptyRedis(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"projections", "status"},
		{"projections", "rebuild", "--reason", "Redis was emptied"},
		{"projections", "verify"},
	} {
		if err := d.run(ctx, args...); err != nil {
			return errors.Join(err, readers.stop())
		}
	}
	if err := readers.stop(); err != nil {
		return err
	}
	d.say("%s", readers)
	return nil
}

// mendOMS turns all that was turned back.
func (d *drill) mendOMS(ctx context.Context) error {
	return d.turn(ctx, "knobs", "oms", "failureRate=0", "unknownSku=")
}

// awaitAll waits until each order is at its end; a status, if it is given, is what they must end in.
func (d *drill) awaitAll(ctx context.Context, status string) error {
	d.settle(ctx)
	for _, o := range d.journal.accepted() {
		if !final(o.status) || status != "" && o.status != status {
			return fmt.Errorf("order %s is %s", o.id, o.status)
		}
	}
	fmt.Printf("all %d orders are at their end\n", len(d.journal.accepted()))
	return nil
}

// watch shows a metric once it is as it is waited for.
func (d *drill) watch(ctx context.Context, what, metric, labels string, reached func(values) bool) error {
	ctx, cancel := context.WithTimeout(ctx, drillPatience)
	defer cancel()
	for {
		seen, err := d.metric(ctx, metric, labels)
		if err == nil && reached(seen) {
			fmt.Printf("\n$ curl -s %s/metrics | grep %s   # %s\n%s", d.cmd.product.url(), metric, what, seen)
			return nil
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return errors.Join(fmt.Errorf("not within %s: %s; last seen:\n%s", drillPatience, what, seen), err)
		}
	}
}
