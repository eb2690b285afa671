package causal

// An Outcome is the result of a test of conditional independence.
type Outcome struct {
	// P is the p-value: the probability, under independence, of data at least as
	// dependent.
	P float64
	// Stat is the test's statistic and DF its degrees of freedom.
	Stat float64
	DF   int
	// Strength is the informational correlation sqrt(1 - exp(-2 I)) of the two
	// variables given the others, in 0..1 (Linfoot, "An informational measure of
	// correlation", 1957).
	Strength float64
	// Untestable is true if there are too few rows for the parameters. Such a test
	// counts neither for nor against independence.
	Untestable bool
}

// Independence tests conditional independence of variables.
type Independence interface {
	// Worker returns a function that tests x and y, x < y, given an ascending list of
	// variables. The function is for a single goroutine.
	Worker() func(x, y int, given []int) Outcome
}

// TestBFX2 names the test that [Learn] uses: it detects smooth dependence of mixed
// variables with functions of degree 2 and products of the conditioning variables.
const TestBFX2 = "bfx2"

// NewTest returns the test on the columns of a table, none of which may be constant.
// The remark, if not empty, states the omission.
func NewTest(t *Table) (test Independence, remark string, err error) {
	return newBasis(t, basisOptions{degree: 2, products: true})
}
