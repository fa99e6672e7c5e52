package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Sizes tells in words how many partitions the topics have. That they differ is no fault: order is kept (shares). But it
// says how many instances of a consumer have work.
func (p Provision) Sizes(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	admin, _, err := p.open()
	if err != nil {
		return "", err
	}
	defer func() { _ = admin.Close() }()
	names := make([]string, len(p.Topics))
	for i, topic := range p.Topics {
		names[i] = topic.Name
	}
	found, err := admin.DescribeTopics(names)
	if err != nil {
		return "", fmt.Errorf("describe topics: %w", err)
	}
	sizes := map[string]int{}
	for _, topic := range found {
		if len(topic.Partitions) > 0 {
			sizes[topic.Name] = len(topic.Partitions)
		}
	}
	return tellSizes(sizes), nil
}

// tellSizes tells the number that most topics have, and those that have another.
func tellSizes(sizes map[string]int) string {
	topics := map[int]int{}
	for _, size := range sizes {
		topics[size]++
	}
	usual := 0
	for _, size := range slices.Sorted(maps.Keys(topics)) {
		if topics[size] > topics[usual] {
			usual = size
		}
	}
	var odd []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		if sizes[name] != usual {
			odd = append(odd, fmt.Sprintf("%s %d", name, sizes[name]))
		}
	}
	text := fmt.Sprintf("%d partitions", usual)
	if len(odd) > 0 {
		text += "; but " + strings.Join(odd, ", ") + ": a consumer's work is shared by as many instances as the topics that it parks in have partitions; " +
			"keys that moved have no order with what waits from before"
	}
	return text
}
