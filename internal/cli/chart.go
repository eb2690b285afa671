package cli

import (
	"math"

	"github.com/autosched/autosched/internal/chart"
)

// DashedLine is the line of a limit or a reference.
var DashedLine = []float64{5, 4}

// HorizontalLine is a horizontal line through a chart.
func HorizontalLine(y float64) []chart.Point {
	return []chart.Point{{X: math.Inf(-1), Y: y}, {X: math.Inf(1), Y: y}}
}

// MaxPoints bounds the points of a line: more cannot be distinguished.
const MaxPoints = 1200
