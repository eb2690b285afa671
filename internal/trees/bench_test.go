package trees

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
)

// jobs generates features like those of duration classes: skewed counts, gaps,
// discrete shares, some missing; six classes depend on a few of them.
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
				if _, err := Boost(context.Background(), x, y, nil,
					BoostOptions{Objective: Softmax, Classes: 6, Rounds: s.rounds}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func trained(b *testing.B, rows, rounds int) (*Model, Matrix) {
	x, y := jobs(rows, 76)
	m, err := Boost(context.Background(), x, y, nil, BoostOptions{Objective: Softmax, Classes: 6, Rounds: rounds})
	if err != nil {
		b.Fatal(err)
	}
	return m, x
}

// BenchmarkPredict predicts a thousand jobs with 100 rounds of six trees: by the
// library, and by the model itself.
func BenchmarkPredict(b *testing.B) {
	m, x := trained(b, 6000, 100)
	var text bytes.Buffer
	if err := m.WriteLightGBM(&text, nil); err != nil {
		b.Fatal(err)
	}
	s, err := Load(&text)
	if err != nil {
		b.Fatal(err)
	}
	for _, rows := range []int{10, 1000} {
		some := Matrix{rows, x.Cols, x.Data[:rows*x.Cols]}
		out := make([]float64, rows*6)
		b.Run(fmt.Sprintf("served/rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for i := range rows {
					if err := s.Predict(some.Row(i), out[6*i:6*i+6]); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(fmt.Sprintf("own/rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for i := range rows {
					m.Predict(some.Row(i), out[6*i:6*i+6])
				}
			}
		})
	}
}

// BenchmarkBoostSmall fits a regression of a causal node.
func BenchmarkBoostSmall(b *testing.B) {
	for _, rows := range []int{200, 2000} {
		x, y := jobs(rows, 15)
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Boost(context.Background(), x, y, nil, BoostOptions{Rounds: 120, Leaves: 15}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkText writes and loads a model of 600 trees.
func BenchmarkText(b *testing.B) {
	m, _ := trained(b, 6000, 100)
	var text bytes.Buffer
	if err := m.WriteLightGBM(&text, nil); err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			if err := m.WriteLightGBM(io.Discard, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("load", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			if _, err := Load(bytes.NewReader(text.Bytes())); err != nil {
				b.Fatal(err)
			}
		}
	})
}
