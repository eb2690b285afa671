package slurmtext_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/autosched/autosched/internal/slurmtext"
)

// TestParseJobID has ids as sacct and squeue print them.
func TestParseJobID(t *testing.T) {
	for text, want := range map[string]struct {
		job             string
		component       int
		array           bool
		tasks, throttle int
		cut             bool
		step            string
	}{
		"123":               {job: "123", component: -1},
		"123.batch":         {job: "123", component: -1, step: "batch"},
		"123+1":             {job: "123", component: 1},
		"123+1.0":           {job: "123", component: 1, step: "0"},
		"123+x":             {job: "123+x", component: -1},
		"15_3":              {job: "15", component: -1, array: true, tasks: 1},
		"15_3.extern":       {job: "15", component: -1, array: true, tasks: 1, step: "extern"},
		"15_[3-9]":          {job: "15", component: -1, array: true, tasks: 7},
		"15_[0-20:5%2]":     {job: "15", component: -1, array: true, tasks: 5, throttle: 2},
		"15_[1,4-5%3]":      {job: "15", component: -1, array: true, tasks: 3, throttle: 3},
		"15_[1,3,12...]":    {job: "15", component: -1, array: true, tasks: 2, cut: true},
		"15_[1,3,...%4]":    {job: "15", component: -1, array: true, tasks: 2, throttle: 4, cut: true},
		"15_[...":           {job: "15", component: -1, array: true, cut: true},
		"15_[5-3]":          {job: "15", component: -1, array: true},
		"15_[1-5,4-8]":      {job: "15", component: -1, array: true, tasks: 8},
		"15_[0-9999999999]": {job: "15", component: -1, array: true, cut: true},
		"15_[1-9:0]":        {job: "15", component: -1, array: true, cut: true},
		"15_[1%-2]":         {job: "15", component: -1, array: true, tasks: 1},
	} {
		id := slurmtext.ParseJobID(text)
		if id.Job != want.job || id.Component != want.component || id.Array != want.array || id.Step != want.step {
			t.Errorf("%q is %+v", text, id)
		}
		tasks := id.Tasks
		if id.Array && (tasks.Len() != want.tasks || tasks.Throttle != want.throttle || tasks.Cut != want.cut ||
			len(slices.Collect(tasks.All())) != want.tasks) {
			t.Errorf("%q has %v, throttle %d, cut %v", text, slices.Collect(tasks.All()), tasks.Throttle, tasks.Cut)
		}
	}
}

// ranged writes numbers in order as bit_fmt does, and as the step that they have in common as xlate_array_task_str
// does.
func ranged(numbers []int) string {
	if len(numbers) > 5 && numbers[len(numbers)-1]-numbers[0] > 10 && numbers[1] != numbers[0]+1 {
		step := numbers[1] - numbers[0]
		equal := true
		for i := range numbers[1:] {
			equal = equal && numbers[i+1]-numbers[i] == step
		}
		if equal {
			return fmt.Sprintf("%d-%d:%d", numbers[0], numbers[len(numbers)-1], step)
		}
	}
	var out []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprint(numbers[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", numbers[i], numbers[j]))
		}
		i = j + 1
	}
	return strings.Join(out, ",")
}

// TestTasksAsWritten: the tasks of a list are the numbers that Slurm wrote, each once and in order.
func TestTasksAsWritten(t *testing.T) {
	numbers := rapid.Custom(func(t *rapid.T) []int {
		if rapid.Bool().Draw(t, "step") {
			first, step := rapid.IntRange(0, 50).Draw(t, "first"), rapid.IntRange(1, 9).Draw(t, "by")
			var out []int
			for i := range rapid.IntRange(1, 40).Draw(t, "n") {
				out = append(out, first+i*step)
			}
			return out
		}
		out := rapid.SliceOfN(rapid.IntRange(0, 200), 1, 60).Draw(t, "numbers")
		slices.Sort(out)
		return slices.Compact(out)
	})
	rapid.Check(t, func(t *rapid.T) {
		want := numbers.Draw(t, "numbers")
		text := ranged(want)
		id := slurmtext.ParseJobID("7_[" + text + "%3]")
		if got := slices.Collect(id.Tasks.All()); !slices.Equal(got, want) || id.Tasks.Len() != len(want) ||
			id.Tasks.Throttle != 3 || id.Tasks.Cut {
			t.Errorf("%s is %v, want %v", text, got, want)
		}
		for n := range id.Tasks.All() { // it stops when asked to
			if n == want[0] {
				break
			}
			t.Errorf("the first of %s is %d", text, n)
		}
		// A list that is cut off has none but tasks of the whole.
		cut := text[:rapid.IntRange(0, len(text)).Draw(t, "cut")] + "..."
		part := slurmtext.ParseJobID("7_[" + cut + "]").Tasks
		for n := range part.All() {
			if !slices.Contains(want, n) {
				t.Errorf("%s has %d, which %s lacks", cut, n, text)
			}
		}
		if !part.Cut {
			t.Errorf("%s is not cut off", cut)
		}
	})
}

// hostText writes names of nodes as hostlist_ranged_string does: runs of a prefix in brackets, with equal widths.
func hostText(prefix string, width int, numbers []int) string {
	var parts []string
	for part := range strings.SplitSeq(ranged(numbers), ",") {
		low, high, is := strings.Cut(part, "-")
		pad := func(text string) string { return strings.Repeat("0", max(0, width-len(text))) + text }
		if parts = append(parts, pad(low)); is {
			parts[len(parts)-1] += "-" + pad(high)
		}
	}
	if len(parts) == 1 && !strings.Contains(parts[0], "-") {
		return prefix + parts[0]
	}
	return prefix + "[" + strings.Join(parts, ",") + "]"
}

// TestHostsAsWritten: a host list names the nodes that Slurm wrote, with their zeros, and cut off it is an error or an
// earlier part of the list.
func TestHostsAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want, texts []string
		for i := range rapid.IntRange(1, 3).Draw(t, "prefixes") {
			prefix, width := fmt.Sprintf("n%c-", 'a'+i), rapid.IntRange(1, 4).Draw(t, "width")
			numbers := rapid.SliceOfN(rapid.IntRange(0, 30), 1, 12).Draw(t, "numbers")
			slices.Sort(numbers)
			numbers = slices.Compact(numbers)
			if len(numbers) > 5 {
				numbers[1] = numbers[0] + 1 // host lists have no steps
				slices.Sort(numbers)
				numbers = slices.Compact(numbers)
			}
			texts = append(texts, hostText(prefix, width, numbers))
			for _, n := range numbers {
				want = append(want, fmt.Sprintf("%s%0*d", prefix, width, n))
			}
		}
		text := strings.Join(texts, ",")
		if got, err := slurmtext.HostList(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %q (%v), want %q", text, got, err, want)
		}
		cut := text[:rapid.IntRange(0, len(text)-1).Draw(t, "cut")]
		if got, err := slurmtext.HostList(cut); err == nil && strings.Contains(cut, "[") &&
			strings.Count(cut, "[") != strings.Count(cut, "]") {
			t.Errorf("%s of %s is %q", cut, text, got)
		}
	})
}
