package durations

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/autosched/autosched/internal/trees"
)

// toy is examples of which two features tell the class: long if ran or the width
// is high.
func toy(n int) *Examples {
	r := rand.New(rand.NewPCG(5, 6))
	e := &Examples{X: trees.NewMatrix(n, len(Features))}
	gpus := column("gpus")
	for i := range n {
		row := e.X.Row(i)
		for c := range row {
			if row[c] = r.Float64(); r.IntN(20) == 0 && c != ranColumn {
				row[c] = missing
			}
		}
		row[ranColumn], row[keyColumn] = 0, missing
		row[gpus] = 4 * r.NormFloat64()
		class := 0.
		if row[gpus] > 0 {
			class = 3
		}
		e.Questions = append(e.Questions, Question{})
		e.Class = append(e.Class, class)
		e.Ran = append(e.Ran, 0)
		e.Total = append(e.Total, [...]float64{100, 0, 0, 5000}[int(class)])
		e.Weights = append(e.Weights, 1)
		e.batch = append(e.batch, 1)
	}
	return e
}

// TestMethods: each learns the pattern, gives probabilities, and never a
// class that the job has outrun.
func TestMethods(t *testing.T) {
	train, test := toy(600), toy(900)
	columns := append(Columns(TheJob, Calendar), column("near_p0"))
	for _, m := range Methods {
		t.Run(m.Name, func(t *testing.T) {
			c, err := m.Learn(context.Background(), train, LearnOptions{Seed: 1, Columns: columns})
			if err != nil {
				t.Fatal(err)
			}
			again, err := m.Learn(context.Background(), train, LearnOptions{Seed: 1, Columns: columns, Workers: 1})
			if err != nil {
				t.Fatal(err)
			}
			p, q := make([]float64, Classes), make([]float64, Classes)
			var s scorer
			for i := 600; i < 900; i++ {
				row := append([]float64{}, test.X.Row(i)...)
				c.Probabilities(p, row)
				again.Probabilities(q, row)
				sum := 0.
				for k := range p {
					if sum += p[k]; p[k] != q[k] {
						t.Fatalf("learnt twice: %v and %v", p, q)
					}
				}
				if math.Abs(sum-1) > 1e-9 {
					t.Fatalf("probabilities %v add up to %g", p, sum)
				}
				s.add(p, int(test.Class[i]))
				row[ranColumn] = span(45 * time.Minute)
				c.Probabilities(p, row)
				if m.Name != "majority" && (p[0] > 0 || p[1] > 0) {
					t.Fatalf("after 45 min: %v", p)
				}
			}
			if got := s.score(); m.Name != "similar" && m.Name != "elapsed" && m.Name != "majority" &&
				got.Accuracy < .95 {
				t.Errorf("accuracy %.2f", got.Accuracy)
			}
		})
	}
	if _, err := MethodNamed("oracle"); err == nil {
		t.Error("there is an oracle")
	}
	nothing := &Examples{X: trees.Matrix{Cols: len(Features)}}
	if _, err := boost(context.Background(), nothing, LearnOptions{}); err == nil {
		t.Error("boosted trees learnt from nothing")
	}
}

func TestRules(t *testing.T) {
	train := &Examples{X: trees.Matrix{Cols: len(Features)}}
	for _, s := range []float64{100, 100, 100, 100, 100, 3000, 3000, 3000, 20000, 20000} {
		row := make([]float64, len(Features))
		row[similarColumn] = missing
		train.X.Data = append(train.X.Data, row...)
		train.X.Rows++
		train.Class = append(train.Class, float64(ClassOf(time.Duration(s)*time.Second)))
		train.Total = append(train.Total, s)
		train.Ran = append(train.Ran, 0)
	}
	ask := func(learn func(context.Context, *Examples, LearnOptions) (Classifier, error), ran, similar float64) int {
		c, err := learn(context.Background(), train, LearnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		row := make([]float64, len(Features))
		row[ranColumn], row[similarColumn] = math.Log1p(ran), math.Log1p(similar)
		p := make([]float64, Classes)
		c.Probabilities(p, row)
		return argmax(p)
	}
	for _, tt := range []struct {
		name         string
		learn        func(context.Context, *Examples, LearnOptions) (Classifier, error)
		ran, similar float64
		want         int
	}{
		{"majority", learnMajority, 0, 0, 0},
		{"majority does not look at elapsed time", learnMajority, 50000, 0, 0},
		{"elapsed, new", learnElapsed, 0, 0, 0},
		{"elapsed, 200 s", learnElapsed, 200, 0, 2},
		{"elapsed, 3000 s", learnElapsed, 3000, 0, 5},
		{"elapsed, longer than any", learnElapsed, 30000, 0, 5},
		{"similar", learnSimilar, 0, 4000, 3},
		{"similar, outrun", learnSimilar, 8000, 4000, 5},
		{"similar, unknown", learnSimilar, 0, math.NaN(), 0},
	} {
		if got := ask(tt.learn, tt.ran, tt.similar); got != tt.want {
			t.Errorf("%s: class %s, want %s", tt.name, ClassNames[got], ClassNames[tt.want])
		}
	}
}

func TestScore(t *testing.T) {
	var s scorer
	s.add([]float64{.8, .2, 0, 0, 0, 0}, 0)
	s.add([]float64{.8, .2, 0, 0, 0, 0}, 0)
	s.add([]float64{.8, .2, 0, 0, 0, 0}, 1)
	s.add([]float64{0, 0, 0, 0, .35, .65}, 0)
	got := s.score()
	loss := -(2*math.Log(.8) + math.Log(.2) + math.Log(1e-6)) / 4
	if got.N != 4 || got.Accuracy != .5 || math.Abs(got.LogLoss-loss) > 1e-12 {
		t.Errorf("%+v, want half right and log-loss %g", got, loss)
	}
	// Bins of .8 (2 of 3 right) and .65 (0 of 1).
	if want := math.Abs(2.4-2)/4 + .65/4; math.Abs(got.ECE-want) > 1e-12 {
		t.Errorf("ECE %g, want %g", got.ECE, want)
	}
}
