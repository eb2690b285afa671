package trees

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// jobs imitates the features of duration classes: skewed counts, gaps, shares
// of few values, some missing; six classes that depend on a few of them.
func jobs(rows, cols int) (Matrix, []float64) {
	src := rand.New(rand.NewPCG(1, 2))
	x, y := NewMatrix(rows, cols), make([]float64, rows)
	for i := range rows {
		row := x.Row(i)
		for j := range row {
			switch j % 4 {
			case 0:
				row[j] = math.Exp(2 * src.NormFloat64())
			case 1:
				row[j] = float64(src.IntN(8))
			case 2:
				row[j] = float64(src.IntN(60*24)) / 60
			case 3:
				row[j] = math.NaN()
				if src.Float64() < 0.8 {
					row[j] = src.ExpFloat64()
				}
			}
		}
		v := math.Log(row[0]) + 0.3*row[1] + math.Sin(row[2]/4) + src.NormFloat64()
		y[i] = math.Max(0, math.Min(5, math.Floor(v+2)))
	}
	return x, y
}

func BenchmarkBoost(b *testing.B) {
	for _, s := range []struct{ rows, rounds int }{{1800, 100}, {14500, 25}, {58000, 25}, {58000, 100}} {
		x, y := jobs(s.rows, 76)
		b.Run(fmt.Sprintf("rows=%d/rounds=%d", s.rows, s.rounds), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Boost(context.Background(), x, y, nil, nil, BoostOptions{Objective: Softmax, Classes: 6, Rounds: s.rounds}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
