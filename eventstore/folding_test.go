package eventstore_test

import (
	"strings"
	"testing"

	"andes/eventstore"
)

func accountEvent(version int64, kind, data string) eventstore.Record {
	return eventstore.Record{Stream: accounts.Stream("1"), Version: version, Position: 10 * version, Type: kind, Schema: 1, Data: []byte(data)}
}

func TestAFoldingGivesTheStateThatIsStored(t *testing.T) {
	registry, err := eventstore.NewRegistry(accounts)
	if err != nil {
		t.Fatal(err)
	}
	records := []eventstore.Record{
		accountEvent(1, "account.opened", `{"owner":"ada"}`), accountEvent(2, "account.moved", `{"amount":5}`), accountEvent(3, "account.moved", `{"amount":-2}`),
	}
	folding, err := registry.Folding("account")
	if err != nil {
		t.Fatal(err)
	}
	for n, record := range records {
		if err := folding.Add(record); err != nil {
			t.Fatal(err)
		}
		state, err := folding.State()
		whole, wholeErr := registry.Fold("account", records[:n+1])
		if err != nil || wholeErr != nil || string(state.State) != string(whole) || state.Owner != "ada" || state.Version != record.Version || state.Position != record.Position {
			t.Errorf("after version %d: %+v, %v; folded whole: %s, %v", record.Version, state, err, whole, wholeErr)
		}
	}
	if err := folding.Add(accountEvent(4, "account.closed", `{}`)); err != nil {
		t.Fatal(err)
	}
	if state, err := folding.State(); err != nil || state.State != nil {
		t.Errorf("a deleted stream has the state %s, %v", state.State, err)
	}
}

func TestAFoldingRefusesHolesAndWhatItDoesNotKnow(t *testing.T) {
	registry, err := eventstore.NewRegistry(accounts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.Folding("unknown"); err == nil {
		t.Error("an unknown category is folded")
	}
	for outcome, record := range map[string]eventstore.Record{
		"version 2 follows 0": accountEvent(2, "account.moved", `{"amount":5}`),
		"unknown event":       accountEvent(1, "account.renamed", `{}`),
		"decode":              accountEvent(1, "account.moved", `{"amount":"much"}`),
	} {
		folding, err := registry.Folding("account")
		if err != nil {
			t.Fatal(err)
		}
		if err := folding.Add(record); err == nil || !strings.Contains(err.Error(), outcome) {
			t.Errorf("%s: %v", outcome, err)
		}
	}
}
