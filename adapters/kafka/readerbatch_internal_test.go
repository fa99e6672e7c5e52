package kafka

import (
	"reflect"
	"testing"

	"github.com/IBM/sarama"
)

// Without these fields an emptied batch is passed over offset by offset. That is right, but slow: a new
// version of sarama without them needs another way.
func TestTheEndOfAnEmptiedBatchIsKnown(t *testing.T) {
	t.Parallel()
	block := reflect.TypeFor[sarama.FetchResponseBlock]()
	for name, want := range map[string]reflect.Type{"recordsNextOffset": reflect.TypeFor[*int64](), "partialBatchSize": reflect.TypeFor[int32]()} {
		if field, exists := block.FieldByName(name); !exists || field.Type != want {
			t.Errorf("sarama.FetchResponseBlock has no %s %s", name, want)
		}
	}
	if next, cut := behindEmpty(&sarama.FetchResponseBlock{LastStableOffset: 10}, 4); next != 5 || cut {
		t.Errorf("behind a batch whose end is not known comes %d, %v", next, cut)
	}
	if next, cut := behindEmpty(&sarama.FetchResponseBlock{LastStableOffset: 4}, 4); next != 4 || cut {
		t.Errorf("at the end comes %d, %v", next, cut)
	}
	if next, cut := behindEmpty(&sarama.FetchResponseBlock{LastStableOffset: 10, Partial: true}, 4); next != 4 || !cut {
		t.Errorf("a batch that is cut gives %d, %v", next, cut)
	}
}
