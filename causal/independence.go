package causal

import (
	"fmt"
	"slices"
	"strings"
)

// An Outcome is the result of a test of conditional independence.
type Outcome struct {
	// P is the p-value: the probability, under independence, of data at least as
	// dependent.
	P float64
	// Stat is the test's statistic and DF its degrees of freedom. The statistic of
	// fisherz is standard normal and has no DF.
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

// Names of the tests that [Learn] accepts.
const (
	// TestBFX2, the default, detects smooth dependence of mixed variables with
	// functions of degree 2 and products of the conditioning variables.
	TestBFX2 = "bfx2"
	// TestBF3 uses functions of degree 3 of each variable's ranks, without products.
	TestBF3 = "bf3"
	// TestDG is linear, with indicators for categories (degenerate Gaussian; Andrews
	// et al., "Learning high-dimensional directed acyclic graphs with mixed
	// data-types", 2019).
	TestDG = "dg"
	// TestFisherZ is linear and treats category codes as numbers.
	TestFisherZ = "fisherz"
	// TestG2 and TestChi2 use contingency tables, with numbers cut into quantile bins.
	TestG2   = "g2"
	TestChi2 = "chi2"
)

// TestNames returns the names of the tests.
func TestNames() []string {
	return []string{TestBFX2, TestBF3, TestDG, TestFisherZ, TestG2, TestChi2}
}

// ParseTest returns the name in TestNames of a test. It accepts causal-learn's gsq
// and chisq for g2 and chi2.
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

// NewTest returns the named test on the columns of a table, none of which may be
// constant. bins applies to g2 and chi2; 0 means 4. The remark, if not empty, states
// the omission.
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
