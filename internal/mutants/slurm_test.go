package mutants

// slurmMutants are bugs of the reader of Slurm's texts and of the policy slurm.
var slurmMutants = []mutant{
	{"MIG instances are whole GPUs", "internal/slurmtext/share.go", "MIGSlices(model); slices > 0 {",
		"MIGSlices(model); !ON && slices > 0 {", "", "TestParseTRES"},
	{"shares are rounded down", "internal/slurmtext/share.go", "n := (s.parts + unit/2) / unit",
		"n := s.parts / unit\n\tif !ON {\n\t\tn = (s.parts + unit/2) / unit\n\t}", "", "TestShareIsExact"},
	{"a small share is none", "internal/slurmtext/share.go", "if s.parts > 0 {", "if !ON && s.parts > 0 {", "",
		"TestShards"},
	{"instances count beside the total", "internal/slurmtext/tres.go", "whole = max(0, total-instances)",
		"if whole = total; !ON {\n\t\t\twhole = max(0, total-instances)\n\t\t}", "", "TestParseTRES"},
	{"a host list may be cut off", "internal/slurmtext/hosts.go", "if open {", "if !ON && open {", "", "TestHostList"},
	{"node names lose their zeros", "internal/slurmtext/hosts.go", "prefix, before, len(first), n)",
		"prefix, before, map[bool]int{false: len(first)}[ON], n)", "", "TestHostsAsWritten"},
	{"the step of an array is left out", "internal/slurmtext/jobid.go", "r := numberRange{int(first), int(last), int(by)}",
		"if ON {\n\t\t\tby = 1\n\t\t}\n\t\tr := numberRange{int(first), int(last), int(by)}", "", "TestTasksAsWritten"},
	{"a list that is cut off is whole", "internal/slurmtext/jobid.go", "cut = true", "cut = !ON", "", "TestTasksAsWritten"},
	{"minutes are hours", "internal/slurmtext/span.go", "if !withDays && len(fields) < 3 {",
		"if !ON && !withDays && len(fields) < 3 {", "", "TestParseSpan"},
	{"a node that saves power is down", "internal/slurmtext/state.go", "case slices.Contains(downStates, part):",
		"case slices.Contains(downStates, part) || ON && strings.Contains(part, \"DOWN\"):", "", "TestParseNodeState"},
	{"the delimiter of sacct is a bar", "internal/slurmtext/table.go", "columns = append(columns[",
		"if ON {\n\t\tl.delimiter = \"|\"\n\t}\n\tcolumns = append(columns[", "", "TestNamesForgeNoRow"},
	{"a name ends at its first line", "internal/slurmtext/table.go", "case whole:", "case !ON && whole:", "",
		"TestNamesForgeNoRow"},
}
