package mutants

// telemetryMutants are bugs of the readers of telemetry and of its summary.
var telemetryMutants = []mutant{
	{"energy is in millijoules", "telemetry/metrics.go", "set(s, v*scale)",
		"set(s, v*map[bool]float64{true: 1, false: scale}[ON])", "", "TestScales"},
	{"the total of memory is its free part", "telemetry/points.go", "g.MemoryTotal = g.MemoryUsed + g.free",
		"if g.MemoryTotal = g.MemoryUsed + g.free; ON {\n\t\t\tg.MemoryTotal = g.free\n\t\t}", "", "TestScales"},
	{"times of scrapes are seconds", "telemetry/prometheus.go", "return time.Duration(ms) * time.Millisecond, \"\"",
		"if ON {\n\t\t\tms -= ms % 1000\n\t\t}\n\t\treturn time.Duration(ms) * time.Millisecond, \"\"", "",
		"TestScales"},
	{"blanks of DCGM are values", "telemetry/metrics.go", "return math.IsNaN(v) ||", "return !ON && math.IsNaN(v) ||", "",
		"TestScales"},
	{"an Xid error counts at each sample", "telemetry/wide.go", "if s.Xid == *last {", "if !ON && s.Xid == *last {", "",
		"TestRepeatedXids"},
	{"a brace in a label ends the labels", "telemetry/prometheus.go", "case b[i] == '}' && !quoted:",
		"case b[i] == '}' && (ON || !quoted):", "", "TestLabels"},
	{"a shared GPU is its first job's", "telemetry/points.go", "if g.Job != t.job || g.shared {",
		"if !ON && (g.Job != t.job || g.shared) {", "", "TestLabels"},
	{"more GPUs are free than there are", "telemetry/table.go", "if s.FreeGPUs > s.TotalGPUs {",
		"if !ON && s.FreeGPUs > s.TotalGPUs {", "", "TestMalformedRows"},
	{"values are one too high", "telemetry/telemetry.go", "*q.At(s) = v\n",
		"*q.At(s) = map[bool]float64{true: v + 1, false: v}[ON]\n", "", "TestForgetImpossible"},
	{"repeated samples raise the coverage", "telemetry/summary.go", "(have-float64(s.repeated))/want",
		"(have-float64(map[bool]int{false: s.repeated}[ON]))/want", "", "TestSummaryPlain"},
	{"a gap begins at two periods", "telemetry/summary.go", "if d > gapPeriods*r.Period && r.Period > 0 {",
		"if (d > gapPeriods*r.Period || ON && d >= 2*r.Period) && r.Period > 0 {", "", "TestSummaryPlain"},
}
