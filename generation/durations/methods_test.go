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
	columns := []int{ranColumn, column("since_submit"), column("gpus"), column("near_p0")}
	learn := func(workers int) Classifier {
		b, err := boost(context.Background(), train, LearnOptions{Seed: 1, columns: columns, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, learn := range map[string]func(workers int) Classifier{
		"boosted": learn, "elapsed": func(int) Classifier { return learnElapsed(train) },
		"majority": func(int) Classifier { return learnMajority(train) },
	} {
		t.Run(name, func(t *testing.T) {
			c, again := learn(0), learn(1)
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
				if name != "majority" && (p[0] > 0 || p[1] > 0) {
					t.Fatalf("after 45 min: %v", p)
				}
			}
			if got := s.score(); name == "boosted" && got.Accuracy < .95 {
				t.Errorf("accuracy %.2f", got.Accuracy)
			}
		})
	}
	nothing := &Examples{X: trees.Matrix{Cols: len(Features)}}
	if _, err := boost(context.Background(), nothing, LearnOptions{}); err == nil {
		t.Error("boosted trees learnt from nothing")
	}
}

func TestRules(t *testing.T) {
	train := &Examples{}
	for _, s := range []float64{100, 100, 100, 100, 100, 3000, 3000, 3000, 20000, 20000} {
		train.Class = append(train.Class, float64(ClassOf(time.Duration(s)*time.Second)))
		train.Total = append(train.Total, s)
		train.Ran = append(train.Ran, 0)
	}
	for _, tt := range []struct {
		name  string
		learn func(*Examples) Classifier
		ran   float64
		want  int
	}{
		{"majority", learnMajority, 0, 0},
		{"majority does not look at elapsed time", learnMajority, 50000, 0},
		{"elapsed, new", learnElapsed, 0, 0},
		{"elapsed, 200 s", learnElapsed, 200, 2},
		{"elapsed, 3000 s", learnElapsed, 3000, 5},
		{"elapsed, longer than any", learnElapsed, 30000, 5},
	} {
		row := make([]float64, len(Features))
		row[ranColumn] = math.Log1p(tt.ran)
		p := make([]float64, Classes)
		tt.learn(train).Probabilities(p, row)
		if got := argmax(p); got != tt.want {
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
