package trace

import (
	"strings"
	"testing"
)

func TestParseColumns(t *testing.T) {
	cs, err := ParseColumns("submit=created at, duration=run:ms,gpus=a:b,memory=m:GiB")
	if err != nil || cs.String() != "submit=created at,duration=run:ms,gpus=a:b,memory=m:GiB" ||
		cs[1] != (Column{Field: "duration", Name: "run", Unit: "ms"}) || cs[2].Name != "a:b" {
		t.Errorf("%v, %v", cs, err)
	}
	for text, says := range map[string]string{
		"":                    "is not FIELD=COLUMN",
		"submit":              "is not FIELD=COLUMN",
		"submit=":             "is not FIELD=COLUMN",
		"begin=x":             `"begin" is not a field; there are submit, start, end`,
		"submit=x,submit=y":   "submit is named twice",
		"submit=x,,gpus=n":    "is not FIELD=COLUMN",
		"submit=x, duration=": "is not FIELD=COLUMN",
	} {
		if _, err := ParseColumns(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The flag offered for an unknown header can be pasted and read.
func TestGuess(t *testing.T) {
	for header, want := range map[string]string{
		"created,admitted,finished,n_gpu":          "submit=created,start=admitted,end=finished,gpus=n_gpu",
		"Job ID;Submit Time;Run Time (s);GPU_num":  "submit=Submit Time,duration=Run Time (s),gpus=GPU_num,id=Job ID",
		"created_at\tstarted_at\tended_at\tgpus":   "submit=created_at,start=started_at,end=ended_at,gpus=gpus",
		"submission_time,runtime_min,gpu_milli":    "submit=submission_time,duration=runtime_min:min,gpus=gpu_milli:milli",
		"uid,creationTimestamp,startTime,gpuCount": "submit=creationTimestamp,start=startTime,gpus=gpuCount,id=uid",
		"a,b,c": "",
	} {
		cs := guess([]byte(header))
		if got := cs.String(); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
		if again, err := ParseColumns(want); want != "" && (err != nil || again.String() != want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	_, _, err := Read(t.Context(), strings.NewReader("created,admitted\n"), "t", Options{})
	if err == nil || !strings.Contains(err.Error(), "columns created, admitted look like submit, start: try --columns "+
		"submit=created,start=admitted, and name the column of gpus, duration (or start and end) too") {
		t.Error(err)
	}
	_, _, err = Read(t.Context(), strings.NewReader("a,b\n"), "t", Options{Columns: Columns{{Field: "submit",
		Name: "a"}}})
	if err == nil || !strings.Contains(err.Error(), "names no column of gpus, duration (or start and end)") {
		t.Error(err)
	}
	_, _, err = Read(t.Context(), strings.NewReader("JobID|State|Submit|Start|End|AllocTRES\n"), "t",
		Options{Columns: Columns{{Field: "tenant", Name: "QOS"}}})
	if err == nil || !strings.Contains(err.Error(), "the header lacks QOS") {
		t.Error(err)
	}
}
