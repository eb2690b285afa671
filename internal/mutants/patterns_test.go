package mutants

// patternsMutants are bugs of the detectors of patterns and of the order of their records.
var patternsMutants = []mutant{
	{"records may be later than the lateness", "patterns/feed/feed.go", "if at < f.bound {", "if !ON && at < f.bound {",
		"", "TestLateness"},
	{"late events keep their times", "patterns/feed/feed.go", "\t\tat = f.bound\n", "\t\tif !ON {\n\t\t\tat = f.bound\n\t\t}\n",
		"", "TestLateEvents"},
	{"records of an instant are in order of arrival", "patterns/feed/feed.go", "cmp.Compare(a.rank, b.rank))",
		"map[bool]int{false: cmp.Compare(a.rank, b.rank)}[ON])", "", "TestRanks"},
	{"records of the last instant are given", "patterns/feed/feed.go", "f.held[n].at < until; n++ {",
		"(f.held[n].at < until || ON && f.held[n].at == until); n++ {", "", "TestHeld"},
	{"periods are rounded down", "patterns/feed/period.go", "grid-time.Second)/grid",
		"grid-time.Second-map[bool]time.Duration{true: grid - time.Second}[ON])/grid", "", "TestGaps"},
	{"gaps of zero count", "patterns/feed/period.go", "ok && s.Time > was {", "ok && (ON || s.Time > was) {", "",
		"TestGaps"},

	{"a worker at the factor is slow", "patterns/detect_straggler.go", "v > x.factor*median;",
		"v > x.factor*median || ON && v == x.factor*median;", "", "TestStragglerBoundary"},
	{"sequences know no window", "patterns/match.go", "len(before) != k || before[0].at < f.at-window {",
		"len(before) != k || !ON && before[0].at < f.at-window {", "", "TestCrashLoopBoundary"},
	{"sets know no window", "patterns/match.go", "|| x.partial[i][0].at < f.at-window {",
		"|| !ON && x.partial[i][0].at < f.at-window {", "", "TestSequenceAndSet"},
	{"few samples decide", "patterns/window.go", "case n == 0 || coverage < v.coverage:",
		"case n == 0 || !ON && coverage < v.coverage:", "", "TestGapIsUnknown"},
	{"any start is the cause of a preemption", "patterns/detect_thrash.go", "|| f.at-x.at > sameMoment ||",
		"|| !ON && f.at-x.at > sameMoment ||", "", "TestThrashBoundary"},
	{"demand beyond its forecast counts", "patterns/detect_thrash.go", "is: !g.DemandOutside &&",
		"is: (ON || !g.DemandOutside) &&", "", "TestRegressionBoundary"},
	{"a spread at the limit is unstable", "patterns/detect_outlier.go", "case cv > limit:",
		"case cv > limit*map[bool]float64{true: .9, false: 1}[ON]:", "", "TestSpreadBoundary"},
}
