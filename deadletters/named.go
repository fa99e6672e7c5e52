package deadletters

import (
	"cmp"
	"context"
	"slices"

	"andes/eventstore"
)

// namedAreThere refuses what names a letter that is not there, or is not there any more.
func namedAreThere(letters []Ref, bounds []Bounds) error {
	for _, ref := range letters {
		within := func(b Bounds) bool {
			return b.Partition == ref.Partition && b.First <= ref.Offset && ref.Offset < b.End
		}
		if !slices.ContainsFunc(bounds, within) {
			return refuseUnknown(ref)
		}
	}
	return nil
}

func refuseUnknown(ref Ref) error {
	return eventstore.Refuse(CodeLetterUnknown, "there is no letter %s: it was never there, or retention has deleted it", ref)
}

// namedAreOpen tells of letters that were named and are done with already. It refuses a run that has nothing else
// to do: it would look like one that went well.
func (s *step) namedAreOpen(ctx context.Context) error {
	settled, err := s.settledOf(ctx, s.job.Filter.Letters)
	if err != nil {
		return err
	}
	if len(settled) > 0 && len(settled) == len(s.job.Filter.Letters) && len(s.plan.entries) == 0 && len(s.state.Left) == 0 {
		return eventstore.Refuse(CodeLetterSettled, "letter %s was %s already, by %s: look at it with `show`", settled[0].ref, settled[0].Action, settled[0].Actor)
	}
	for _, one := range settled {
		s.state.Left.add(WhySettled, one.ref)
	}
	return nil
}

// settledLetter is a letter that is done with.
type settledLetter struct {
	ref Ref
	Settlement
}

// settledOf gives those of the letters that are done with. Letters that are near to each other are asked for together.
func (s *Service) settledOf(ctx context.Context, letters []Ref) ([]settledLetter, error) {
	var found []settledLetter
	sorted := slices.Clone(letters)
	slices.SortFunc(sorted, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	for len(sorted) > 0 {
		first, near := sorted[0], 1
		for near < len(sorted) && sorted[near].Partition == first.Partition && sorted[near].Offset < first.Offset+windowLetters {
			near++
		}
		last := sorted[near-1]
		settlements, err := s.Ledger.Settlements(ctx, first.Consumer, first.Partition, first.Offset, last.Offset+1)
		if err != nil {
			return nil, err
		}
		for _, ref := range sorted[:near] {
			if settlement := settlements[ref.Offset]; settlement.Done {
				found = append(found, settledLetter{ref, settlement})
			}
		}
		sorted = sorted[near:]
	}
	return found, nil
}
