package projections

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Generation is one build of a read model, from 1. A number is never used for two builds.
type Generation int64

func (g Generation) String() string { return strconv.FormatInt(int64(g), 10) }

// Lineage are the generations of a read model that exist: one answers the queries, the others are kept
// up to date beside it, one that is being built or an old one that can be gone back to.
type Lineage struct {
	Serving Generation
	Others  []Generation
}

// All lists the generations that the feed is written to, the serving one first.
func (l Lineage) All() []Generation { return append([]Generation{l.Serving}, l.Others...) }

// Names tells whether the feed is written to the generation.
func (l Lineage) Names(g Generation) bool { return l.Serving == g || slices.Contains(l.Others, g) }

func (l Lineage) equal(other Lineage) bool {
	return l.Serving == other.Serving && slices.Equal(l.Others, other.Others)
}

func (l Lineage) text(separator string) string {
	words := make([]string, 0, 1+len(l.Others))
	for _, generation := range l.All() {
		words = append(words, generation.String())
	}
	return strings.Join(words, separator)
}

// Generations say which generations each read model has. They are one text in Redis, the pointer, so that
// any number of read models is switched at once:
//
//	2 1               every read model: 2 serves, 1 is kept up to date too
//	2 1 stock=3,2     stock has a lineage of its own
type Generations struct {
	Lineage                    // of the read models without their own
	Models  map[string]Lineage // of those that were rebuilt alone
}

// FirstGenerations are those of an empty Redis.
var FirstGenerations = Generations{Lineage: Lineage{Serving: 1}}

// Of gives the lineage of a read model.
func (g Generations) Of(model string) Lineage {
	if own, has := g.Models[model]; has {
		return own
	}
	return g.Lineage
}

// Equal tells whether both name the same.
func (g Generations) Equal(other Generations) bool {
	return g.Lineage.equal(other.Lineage) && maps.EqualFunc(g.Models, other.Models, Lineage.equal)
}

// Highest is the greatest generation that is named.
func (g Generations) Highest() Generation {
	highest := slices.Max(g.All())
	for _, lineage := range g.Models {
		highest = max(highest, slices.Max(lineage.All()))
	}
	return highest
}

// String gives the pointer's text.
func (g Generations) String() string {
	text := g.text(" ")
	for _, model := range slices.Sorted(maps.Keys(g.Models)) {
		text += " " + model + "=" + g.Models[model].text(",")
	}
	return text
}

// With changes the lineages of the models among all, and gives the simplest way to say it.
func (g Generations) With(all, models []string, change func(Lineage) Lineage) Generations {
	changed := Generations{Lineage: g.Lineage, Models: map[string]Lineage{}}
	if containsAll(models, all) {
		changed.Lineage = change(g.Lineage)
	}
	for _, model := range all {
		lineage := g.Of(model)
		if slices.Contains(models, model) {
			lineage = change(lineage)
		}
		if !lineage.equal(changed.Lineage) {
			changed.Models[model] = lineage
		}
	}
	if len(changed.Models) == 0 {
		changed.Models = nil
	}
	return changed
}

func containsAll(set, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(set, name) })
}

// Building is the lineage with a generation that is being built beside the serving one. Older ones are
// no longer kept.
func (l Lineage) Building(g Generation) Lineage {
	return Lineage{Serving: l.Serving, Others: []Generation{g}}
}

// Without is the lineage less a generation that does not serve.
func (l Lineage) Without(g Generation) Lineage {
	return Lineage{Serving: l.Serving, Others: slices.DeleteFunc(slices.Clone(l.Others), func(other Generation) bool { return other == g })}
}

// SwitchedTo is the lineage with another generation serving; the one before it is the first that is kept.
func (l Lineage) SwitchedTo(g Generation) Lineage {
	if l.Serving == g {
		return l
	}
	return Lineage{Serving: g, Others: append([]Generation{l.Serving}, l.Without(g).Others...)}
}

// maxGenerations bounds how many generations of a read model are kept up to date at a time.
const maxGenerations = 4

// ErrPointer marks a text that names no generations.
var ErrPointer = errors.New("is no list of generations")

// ParseGenerations is the inverse of Generations.String.
func ParseGenerations(text string) (Generations, error) {
	var parsed Generations
	var own []string
	words := strings.Split(text, " ")
	for i, word := range words {
		if strings.Contains(word, "=") {
			words, own = words[:i], words[i:]
			break
		}
	}
	lineage, err := parseLineage(words)
	if err != nil {
		return parsed, fmt.Errorf("generation pointer %.80q %w", text, err)
	}
	parsed.Lineage = lineage
	for _, word := range own {
		model, list, _ := strings.Cut(word, "=")
		lineage, err := parseLineage(strings.Split(list, ","))
		if _, twice := parsed.Models[model]; err != nil || twice || !modelName.MatchString(model) {
			return Generations{}, fmt.Errorf("generation pointer %.80q %w", text, ErrPointer)
		}
		if parsed.Models == nil {
			parsed.Models = make(map[string]Lineage, len(own))
		}
		parsed.Models[model] = lineage
	}
	return parsed, nil
}

func parseLineage(words []string) (Lineage, error) {
	if len(words) == 0 || len(words) > maxGenerations {
		return Lineage{}, fmt.Errorf("%w of at most %d", ErrPointer, maxGenerations)
	}
	var list []Generation
	for _, word := range words {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 1 || slices.Contains(list, Generation(n)) {
			return Lineage{}, ErrPointer
		}
		list = append(list, Generation(n))
	}
	return Lineage{Serving: list[0], Others: list[1:]}, nil
}
