package causal

import (
	"fmt"
	"math"
)

// fisherZ tests partial correlations by Fisher's z transform.
type fisherZ struct {
	rows, n int
	corr    []float64
}

func newFisherZ(t *Table) (*fisherZ, error) {
	f := &fisherZ{rows: t.Rows(), n: t.Len()}
	columns := make([][]float64, f.n)
	for i := range columns {
		c := t.Column(i)
		z, ok := standardised(c.Values)
		if !ok {
			return nil, fmt.Errorf("column %q is constant", c.Name)
		}
		columns[i] = z
	}
	f.corr = make([]float64, f.n*f.n)
	for i := range f.n {
		f.corr[i*f.n+i] = 1
		for j := range i {
			r := dot(columns[i], columns[j]) / float64(f.rows)
			f.corr[i*f.n+j], f.corr[j*f.n+i] = r, r
		}
	}
	return f, nil
}

// Worker implements [Independence].
func (f *fisherZ) Worker() func(x, y int, given []int) Outcome {
	var w wilks
	return func(x, y int, given []int) Outcome { return f.test(&w, x, y, given) }
}

func (f *fisherZ) test(w *wilks, x, y int, given []int) Outcome {
	ns := len(given)
	size := ns + 2
	if f.rows-ns-3 <= 0 {
		return Outcome{P: 1, Untestable: true}
	}
	c := w.matrix(size)
	variable := func(k int) int {
		switch {
		case k < ns:
			return given[k]
		case k == ns:
			return x
		}
		return y
	}
	for i := range size {
		for j := range size {
			c[i*size+j] = f.corr[variable(i)*f.n+variable(j)]
		}
	}
	if rank := w.partial(ns, size); rank < ns {
		return f.singular(w, x, y, given)
	}
	vx, vy := c[ns*size+ns], c[(ns+1)*size+ns+1]
	if vx <= zeroVariance || vy <= zeroVariance {
		return f.singular(w, x, y, given)
	}
	r := c[(ns+1)*size+ns] / math.Sqrt(vx*vy)
	r = math.Copysign(min(math.Abs(r), 1-0x1p-52), r)
	z := math.Sqrt(float64(f.rows-ns-3)) * math.Abs(math.Atanh(r))
	// Erfc rather than 2(1-Phi), which is 0 beyond z = 8.3.
	return Outcome{P: math.Erfc(z / math.Sqrt2), Stat: z, Strength: math.Abs(r)}
}

// singular runs the test with Wilks' lambda where variables determine each other:
// only directions with variance count.
func (f *fisherZ) singular(w *wilks, x, y int, given []int) Outcome {
	ns := len(given)
	size := ns + 2
	c := w.matrix(size)
	ids := append(append(make([]int, 0, size), given...), x, y)
	for i, a := range ids {
		for j, b := range ids {
			c[i*size+j] = f.corr[a*f.n+b]
		}
	}
	return w.test(ns, 1, 1, f.rows)
}
