package causal

import (
	"fmt"
	"slices"
	"strings"
)

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
	// Untestable is set where the rows are too few for the parameters; it
	// counts neither way.
	Untestable bool
}

// Independence tests whether variables are independent given others.
type Independence interface {
	// Worker returns a function for one goroutine that tests x and y, x < y, given
	// the variables of an ascending list.
	Worker() func(x, y int, given []int) Outcome
}

// Names of the tests that Learn knows. The oracle is no test of data.
const (
	// TestBFX2, the default, detects any smooth dependence of mixed variables: second
	// degree functions, and products of the conditioning variables.
	TestBFX2 = "bfx2"
	// TestBF3 uses third degree functions of the ranks of each variable, without products.
	TestBF3 = "bf3"
	// TestDG is linear, with indicators for categories (degenerate Gaussian;
	// Andrews et al., "Learning high-dimensional directed acyclic graphs with mixed
	// data-types", 2019).
	TestDG = "dg"
	// TestFisherZ is linear; categories count as their numbers.
	TestFisherZ = "fisherz"
	// TestG2 and TestChi2 count categories, numbers cut into quantile bins.
	TestG2   = "g2"
	TestChi2 = "chi2"
)

// TestNames lists the tests of data.
func TestNames() []string {
	return []string{TestBFX2, TestBF3, TestDG, TestFisherZ, TestG2, TestChi2}
}

// ParseTest returns the name that TestNames has for a test; gsq and chisq, as
// causal-learn calls them, are g2 and chi2.
func ParseTest(name string) (string, error) {
	switch name {
	case "gsq":
		return TestG2, nil
	case "chisq":
		return TestChi2, nil
	}
	if slices.Contains(TestNames(), name) {
		return name, nil
	}
	return "", fmt.Errorf("%q is not a test; there are %s", name, strings.Join(TestNames(), ", "))
}

// NewTest prepares a test of the columns of a table, none of them constant. bins
// is for g2 and chi2, 0 for 4. The remark, if any, says what had to be left out.
func NewTest(name string, t *Table, bins int) (test Independence, remark string, err error) {
	if bins == 0 {
		bins = defaultBins
	}
	if t.Rows() < 2 {
		return nil, "", fmt.Errorf("causal: %d rows are too few to test anything", t.Rows())
	}
	if name, err = ParseTest(name); err != nil {
		return nil, "", err
	}
	switch name {
	case TestBFX2:
		test, remark, err = newBasis(t, basisOptions{degree: 2, products: true})
	case TestBF3:
		test, remark, err = newBasis(t, basisOptions{degree: 3, rank: true})
	case TestDG:
		test, remark, err = newBasis(t, basisOptions{degree: 1, linear: true})
	case TestFisherZ:
		test, err = newFisherZ(t)
	case TestG2, TestChi2:
		if bins < 2 || bins > 64 {
			return nil, "", fmt.Errorf("causal: %d bins: use 2 to 64", bins)
		}
		test, err = newContingency(t, name == TestChi2, bins)
	}
	if err != nil {
		return nil, "", err
	}
	return test, remark, nil
}
