package quota

import "time"

// micro is how many parts a request has in a level, and how many a second has in a time. That both are
// the same makes rate × time a level.
const micro = 1_000_000

// Limit is a rate and how much may come at once.
type Limit struct {
	PerSecond int64
	Burst     int64 // requests
}

// Level is how much of a burst is used up, at a time of any clock.
type Level struct {
	Used int64 // millionths of a request
	At   int64 // microseconds
}

// Draining gives the level at a later time. A level beyond the burst counts as a full one, and a time that is yet
// to come as now: whatever was kept, the whole burst is there again after its time.
func (l Limit) Draining(v Level, now int64) Level {
	used, elapsed := min(max(v.Used, 0), l.Burst*micro), max(now-v.At, 0)
	if elapsed > l.Burst*micro/l.PerSecond {
		return Level{At: now}
	}
	return Level{Used: max(0, used-elapsed*l.PerSecond), At: now}
}

// Take raises the level by cost, if that fits under the burst, and by up to extra more from the burst's
// upper half. It gives how much was granted: 0, or cost and more.
func (l Limit) Take(v Level, now, cost, extra int64) (Level, int64) {
	v = l.Draining(v, now)
	left := l.Burst*micro - v.Used - cost*micro
	if left < 0 {
		return v, 0
	}
	granted := cost + max(0, min(extra, (left-l.Burst*micro/2)/micro))
	v.Used += granted * micro
	return v, granted
}

// Remaining is how many whole requests fit at the time of the level.
func (l Limit) Remaining(v Level) int64 { return max(0, l.Burst*micro-v.Used) / micro }

// Full is the time until nothing of the burst is used, rounded up.
func (l Limit) Full(v Level) time.Duration { return l.drain(v.Used) }

// Wait is the time until a request of this cost fits, rounded up.
func (l Limit) Wait(v Level, cost int64) time.Duration {
	return l.drain(max(0, v.Used+cost*micro-l.Burst*micro))
}

func (l Limit) drain(used int64) time.Duration {
	return time.Duration((used+l.PerSecond-1)/l.PerSecond) * time.Microsecond
}
