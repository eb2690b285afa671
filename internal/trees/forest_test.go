package trees

import "testing"

func TestClassForest(t *testing.T) {
	x, y := noisy(8, 2000, 5, 0.1, classesOf)
	test, want := noisy(9, 1000, 5, 0.1, classesOf)
	for name, o := range map[string]ForestOptions{
		"extra":  {RandomCuts: true, Trees: 60, MinLeaf: 2},
		"random": {Bootstrap: true, Trees: 60, MinLeaf: 2},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := ClassForest(x, y, nil, 3, o)
			if err != nil {
				t.Fatal(err)
			}
			right, p := 0, make([]float64, 3)
			for i := range want {
				m.Predict(test.Row(i), p)
				if s := p[0] + p[1] + p[2]; s < 1-1e-9 || s > 1+1e-9 {
					t.Fatalf("probabilities %v", p)
				}
				best := 0
				for k := range p {
					if p[k] > p[best] {
						best = k
					}
				}
				if float64(best) == want[i] {
					right++
				}
			}
			if right < 600 {
				t.Errorf("%d of 1000 right", right)
			}
		})
	}
}
