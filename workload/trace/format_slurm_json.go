package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slurmJSONFormat is the JSON of Slurm's commands: sacct --json, the history, and squeue --json or scontrol show jobs
// --json, the jobs at one time. Both are read as rows of sacctFormat. Fields are those of data_parser v0.0.37 to
// v0.0.43 (src/plugins/data_parser/v0.0.43/parsers.c and earlier ones).
var slurmJSONFormat = Format{
	Name:   "slurm-json",
	About:  "Slurm, sacct --json -D, squeue --json or scontrol show jobs --json",
	Header: `{"jobs":[{"job_id":1,"state":{"current":["COMPLETED"]},"time":{...},"tres":{...}},...]}`,
	detect: func(head []byte) bool {
		has := func(key string) bool { return bytes.Contains(head, []byte(key)) }
		return bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte{'{'}) && has(`"jobs"`) &&
			(has(`"job_id"`) || has(`"data_parser`) || has(`"openapi/`))
	},
	read:   readSlurmJSON,
	finish: finishSacct,
}

// slurmNumber is a number as Slurm writes it: plain, or with whether it is set or infinite. Text is its digits, "" if
// it is not set, and UNLIMITED.
type slurmNumber struct{ text string }

func (n *slurmNumber) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		if n.text = strings.Trim(string(b), `"`); n.text == "null" {
			n.text = ""
		}
		return nil
	}
	var x struct {
		Set, Infinite bool
		Number        json.Number
	}
	err := json.Unmarshal(b, &x)
	switch {
	case x.Infinite:
		n.text = "UNLIMITED"
	case x.Set:
		n.text = x.Number.String()
	}
	return err
}

// slurmStates is the states of a job, of which the first is the base.
type slurmStates struct{ base string }

func (s *slurmStates) UnmarshalJSON(b []byte) error {
	var of struct{ Current json.RawMessage }
	if b[0] == '{' {
		if err := json.Unmarshal(b, &of); err != nil || len(of.Current) == 0 {
			return err
		}
		b = of.Current
	}
	if b[0] != '[' {
		return json.Unmarshal(b, &s.base)
	}
	var all []string
	err := json.Unmarshal(b, &all)
	if s.base = strings.Join(all[:min(1, len(all))], ""); s.base == "PENDING" && slices.Contains(all, "RESIZING") {
		s.base = "RESIZING" // the flag of a part that has ended
	}
	return err
}

// slurmTRES are resources.
type slurmTRES []struct {
	Type, Name string
	Count      slurmNumber
}

// text writes resources as the columns of sacct have them.
func (t slurmTRES) text() string {
	var items []string
	for _, x := range t {
		name := x.Type
		if x.Name != "" {
			name += "/" + x.Name
		}
		items = append(items, name+"="+cmp.Or(x.Count.text, "0"))
	}
	return strings.Join(items, ",")
}

type slurmJob struct {
	ID      slurmNumber `json:"job_id"`
	Name    string      `json:"name"`
	Account string      `json:"account"`
	User    string      `json:"user"`
	// UserName and the other names with an underscore are squeue's.
	UserName  string      `json:"user_name"`
	Partition string      `json:"partition"`
	QOS       string      `json:"qos"`
	Cluster   string      `json:"cluster"`
	Nodes     string      `json:"nodes"`
	NodeCount slurmNumber `json:"node_count"`
	Allocated slurmNumber `json:"allocation_nodes"`
	State     slurmStates `json:"state"`
	JobState  slurmStates `json:"job_state"`
	Time      struct {
		Elapsed, Eligible, Submission, Start, End, Limit slurmNumber
	} `json:"time"`
	Submit   slurmNumber `json:"submit_time"`
	Eligible slurmNumber `json:"eligible_time"`
	Start    slurmNumber `json:"start_time"`
	End      slurmNumber `json:"end_time"`
	Limit    slurmNumber `json:"time_limit"`
	TRES     struct {
		Allocated, Requested slurmTRES
	} `json:"tres"`
	AllocTRES string `json:"tres_alloc_str"`
	ReqTRES   string `json:"tres_req_str"`
	Array     struct {
		Job  slurmNumber `json:"job_id"`
		Task slurmNumber `json:"task_id"`
		// Tasks are the ones that wait, of one row.
		Tasks string `json:"task"`
	} `json:"array"`
	ArrayJob   slurmNumber `json:"array_job_id"`
	ArrayTask  slurmNumber `json:"array_task_id"`
	ArrayTasks string      `json:"array_task_string"`
	Het        struct {
		Job    slurmNumber `json:"job_id"`
		Offset slurmNumber `json:"job_offset"`
	} `json:"het"`
	HetJob    slurmNumber `json:"het_job_id"`
	HetOffset slurmNumber `json:"het_job_offset"`
}

// fields are the fields of a row of sacctFormat.
func (j *slurmJob) fields(fields [][]byte) {
	text := func(texts ...string) []byte { return []byte(cmp.Or(texts...)) }
	limit := cmp.Or(j.Time.Limit.text, j.Limit.text)
	if limit == "0" {
		limit = ""
	}
	for i := range fields {
		fields[i] = nil
	}
	fields[sacctID], fields[sacctState] = text(j.ID.text), text(j.State.base, j.JobState.base)
	fields[sacctSubmit] = text(j.Time.Submission.text, j.Submit.text)
	fields[sacctStart] = text(j.Time.Start.text, j.Start.text)
	fields[sacctEnd] = text(j.Time.End.text, j.End.text)
	fields[sacctEligible] = text(j.Time.Eligible.text, j.Eligible.text)
	fields[sacctElapsedRaw] = text(j.Time.Elapsed.text)
	fields[sacctAllocTRES] = text(j.TRES.Allocated.text(), j.AllocTRES)
	fields[sacctReqTRES] = text(j.TRES.Requested.text(), j.ReqTRES)
	fields[sacctUser], fields[sacctTenant] = text(j.User, j.UserName), text(j.Account, j.Partition)
	fields[sacctName], fields[sacctPartition], fields[sacctQOS] = text(j.Name), text(j.Partition), text(j.QOS)
	fields[sacctAccount], fields[sacctCluster] = text(j.Account), text(j.Cluster)
	fields[sacctLimitRaw], fields[sacctNodes] = text(limit), text(j.Nodes)
	fields[sacctNodeCount] = text(j.Allocated.text, j.NodeCount.text)
	fields[sacctArray] = text(j.Array.Job.text, j.ArrayJob.text)
	fields[sacctTask] = text(j.Array.Task.text, j.ArrayTask.text)
	fields[sacctTasks] = text(j.Array.Tasks, j.ArrayTasks)
	fields[sacctLeader] = text(j.Het.Job.text, j.HetJob.text)
	fields[sacctOffset] = text(j.Het.Offset.text, j.HetOffset.text)
}

func readSlurmJSON(in *input) error {
	in.beginSacct(true)
	names := sacctColumns
	names[sacctTenant] = "Account"
	r := &csvRow{in: in, names: names[:], fields: make([][]byte, len(names))}
	for i := range r.names {
		r.column = append(r.column, i)
	}
	s, t := jsonElements{in: in, text: in.source.Text, line: 1}, &table{fold: foldSacct}
	if err := s.enter("jobs"); err != nil {
		return fmt.Errorf("line %d: %w", s.line, err)
	}
	err := s.each(func(element []byte, long bool) {
		var j slurmJob
		if long {
			in.reject("job", "is longer than the limit", element)
			return
		}
		if err := json.Unmarshal(element, &j); err != nil {
			in.reject("job", "is not a JSON object of the format", element)
			return
		}
		j.fields(r.fields)
		t.take(r)
	})
	if err != nil {
		return err
	}
	return in.slurmJSONTail(s.text)
}

// slurmJSONTail reads what follows the jobs: squeue's says when they were listed.
func (in *input) slurmJSONTail(text *bufio.Reader) error {
	b, err := io.ReadAll(io.LimitReader(text, 1<<20))
	if err != nil {
		return err
	}
	var tail struct {
		Updated slurmNumber       `json:"last_update"`
		Errors  []json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(append([]byte(`{"":0`), b...), &tail) != nil {
		return fmt.Errorf("%w: the JSON is not closed: the file is cut short", ErrFormat)
	}
	if len(tail.Errors) > 0 {
		in.note(fmt.Sprintf("Slurm reported errors beside the jobs: %s", tail.Errors[0]))
	}
	if at, err := strconv.ParseInt(tail.Updated.text, 10, 64); err == nil && at > firstSecond && at < lastSecond {
		s := in.state.(*sacctJobs)
		s.until = max(s.until, time.Duration(at)*time.Second)
	}
	return nil
}

// enter reads up to the elements of the array that a member of an object is.
func (s *jsonElements) enter(key string) error {
	depth, quoted, escaped, text := 0, false, false, []byte(nil)
	for {
		c, err := s.text.ReadByte()
		if err == io.EOF {
			return fmt.Errorf("%w: there is no array of %s", ErrFormat, key)
		}
		if err != nil {
			return err
		}
		switch {
		case c == '\n':
			s.line++
		case escaped:
			escaped = false
		case quoted && c != '"':
			if escaped = c == '\\'; len(text) <= len(key) {
				text = append(text, c)
			}
		case c == '"':
			if quoted = !quoted; quoted {
				text = text[:0]
			}
		case c == '{' || c == '[':
			if c == '[' && depth == 1 && string(text) == key {
				s.array, s.begun, s.member = true, true, true
				return nil
			}
			if depth++; depth > maxDepth {
				return fmt.Errorf("%w: JSON nested deeper than %d", ErrLimit, maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == ',':
			text = text[:0]
		}
	}
}
