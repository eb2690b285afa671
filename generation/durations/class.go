package durations

import (
	"fmt"
	"time"
)

// Classes is the number of duration classes.
const Classes = 6

// Bounds are the instants between the classes (the paper, section 4.1): class c
// holds durations from Bounds[c-1], included, to Bounds[c].
var Bounds = [Classes - 1]time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour}

// ClassNames as people read them.
var ClassNames = [Classes]string{"<5m", "5-30m", "30m-1h", "1-2h", "2-4h", ">=4h"}

// ClassOf is the class of a duration.
func ClassOf(d time.Duration) int {
	c := 0
	for c < len(Bounds) && d >= Bounds[c] {
		c++
	}
	return c
}

// Range of a class: from included, to excluded; the last ends with the longest
// duration there is.
func Range(class int) (from, to time.Duration) {
	if class < 0 || class >= Classes {
		panic(fmt.Sprintf("durations: there is no class %d", class))
	}
	if class > 0 {
		from = Bounds[class-1]
	}
	if to = 1<<63 - 1; class < len(Bounds) {
		to = Bounds[class]
	}
	return from, to
}
