package mutants

// telemetryMutants are bugs of the readers of telemetry and of its summary.
var telemetryMutants = []mutant{
	{"energy is in millijoules", "telemetry/quantity.go", "set(s, v*m.scale)",
		"set(s, v*map[bool]float64{true: 1, false: m.scale}[ON])", "", "TestScales"},
	{"the total of memory is its free part", "telemetry/prometheus.go", "x.MemoryTotal = x.MemoryUsed + x.free",
		"if x.MemoryTotal = x.MemoryUsed + x.free; ON {\n\t\t\t\tx.MemoryTotal = x.free\n\t\t\t}", "", "TestScales"},
	{"times of scrapes are seconds", "telemetry/prometheus.go", "at = time.Duration(ms) * time.Millisecond",
		"if at = time.Duration(ms) * time.Millisecond; ON {\n\t\t\tat = time.Duration(ms/1000) * time.Second\n\t\t}", "",
		"TestScales"},
	{"blanks of DCGM are values", "telemetry/quantity.go", "return math.IsNaN(v) ||", "return !ON && math.IsNaN(v) ||", "",
		"TestScales"},
	{"an Xid error counts at each sample", "telemetry/wide.go", "if s.Xid == *last {", "if !ON && s.Xid == *last {", "",
		"TestRepeatedXids"},
	{"a brace in a label ends the labels", "telemetry/prometheus.go", "case b[i] == '}' && !quoted:",
		"case b[i] == '}' && (ON || !quoted):", "", "TestLabels"},
	{"a shared GPU is its first job's", "telemetry/prometheus.go", "if x.Job != t.job || x.shared {",
		"if !ON && (x.Job != t.job || x.shared) {", "", "TestLabels"},
	{"more GPUs are free than there are", "telemetry/columns.go", "if s.FreeGPUs > s.TotalGPUs {",
		"if !ON && s.FreeGPUs > s.TotalGPUs {", "", "TestMalformedRows"},
	{"values are one too high", "telemetry/quantity.go", "*q.At(s) = v\n",
		"*q.At(s) = map[bool]float64{true: v + 1, false: v}[ON]\n", "", "TestForgetImpossible"},
	{"repeated samples raise the coverage", "telemetry/summary.go", "(have-float64(s.repeated))/want",
		"(have-float64(map[bool]int{false: s.repeated}[ON]))/want", "", "TestSummaryPlain"},
	{"a gap begins at two periods", "telemetry/summary.go", "if d > gapPeriods*r.Period && r.Period > 0 {",
		"if (d > gapPeriods*r.Period || ON && d >= 2*r.Period) && r.Period > 0 {", "", "TestSummaryPlain"},
}
