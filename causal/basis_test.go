package causal

import (
	"math"
	"testing"
)

// TestConstantPolynomials: values that are nearly one of two give a second polynomial that is constant; it counts for
// nothing, in a test of either variable.
func TestConstantPolynomials(t *testing.T) {
	one, other := make([]float64, 40), make([]float64, 40)
	for i := range one {
		one[i], other[i] = float64(i%2), float64(i%5)
	}
	one[1] = math.Nextafter(1, 2)
	table, err := NewTable(Column{Name: "one", Values: one}, Column{Name: "other", Values: other})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := newBasis(table, basisOptions{degree: 2})
	if err != nil {
		t.Fatal(err)
	}
	x, y := b.Worker()(0, 1, nil), b.Worker()(1, 0, nil)
	if !(x.P > .05 && x.P <= 1) || math.Abs(x.P-y.P) > 1e-9 {
		t.Errorf("p %v and %v", x.P, y.P)
	}
}
