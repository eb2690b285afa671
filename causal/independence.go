package causal

// An Outcome is what a test of conditional independence found.
type Outcome struct {
	// P is the probability of data that look at least as dependent if the two are
	// independent.
	P float64
	// Stat is the test's statistic with DF degrees of freedom. That of fisherz is
	// standard normal and has none.
	Stat float64
	DF   int
	// Strength is the informational correlation sqrt(1 - exp(-2 I)) of the two
	// given the others, in 0..1 (Linfoot, "An informational measure of
	// correlation", 1957).
	Strength float64
	// Untestable is set where the rows are too few for so many parameters; it
	// counts neither way.
	Untestable bool
}

// Independence tests whether variables are independent given others.
type Independence interface {
	// Worker returns a function for one goroutine that tests x and y, x < y, given
	// the variables of an ascending list.
	Worker() func(x, y int, given []int) Outcome
}
