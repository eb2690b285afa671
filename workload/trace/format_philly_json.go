package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/autosched/autosched/workload"
)

// phillyJSONFormat is the Microsoft Philly trace as published (Jeon et al.,
// USENIX ATC 2019; data CC-BY-4.0 from msr-fiddle/philly-traces): cluster_job_log,
// an array of jobs, each with its attempts. Times are local and name no zone. As
// in the trace's own analysis, a job has the GPUs of its first attempt, and its
// run time is the sum over attempts that have both start and end. Jobs that did
// not run, or ran still, are left out.
var phillyJSONFormat = Format{
	Name: "philly-json",
	About: "Microsoft Philly as published, cluster_job_log: an array of jobs with attempts, local times, users " +
		"and virtual clusters",
	Header: `[{"status":"Pass","vc":"ee9e8c","jobid":"application_1","attempts":[...],"submitted_time":"2017-10-07 01:11:39","user":"ce2f4c"},...]`,
	detect: func(head []byte) bool {
		head = bytes.TrimLeft(head, " \t\r\n")
		return len(head) > 0 && (head[0] == '[' || head[0] == '{') && bytes.Contains(head, []byte(`"jobid"`)) &&
			bytes.Contains(head, []byte(`"submitted_time"`))
	},
	read: readPhillyJSON,
}

type phillyJob struct {
	Status    string          `json:"status"`
	VC        string          `json:"vc"`
	ID        string          `json:"jobid"`
	Attempts  []phillyAttempt `json:"attempts"`
	Submitted string          `json:"submitted_time"`
	User      string          `json:"user"`
}

type phillyAttempt struct {
	Start  string `json:"start_time"`
	End    string `json:"end_time"`
	Detail []struct {
		Node string   `json:"ip"`
		GPUs []string `json:"gpus"`
	} `json:"detail"`
}

func readPhillyJSON(in *input) error {
	in.wallClock = !in.hasZero
	s := jsonElements{in: in, text: in.source.Text, line: 1}
	return s.each(func(element []byte, long bool) {
		at := Rejection{File: in.file, Line: s.from, Row: s.n}
		reject := func(field, reason string, value []byte) {
			at.Field, at.Reason = field, reason
			in.rejectRow(at, value)
		}
		if long {
			reject("job", "is longer than the limit", element)
			return
		}
		var p phillyJob
		if err := json.Unmarshal(element, &p); err != nil {
			var typed *json.UnmarshalTypeError
			if errors.As(err, &typed) && typed.Field != "" {
				reject(typed.Field, "is not what the format has there", []byte(typed.Value))
			} else {
				reject("job", "is not a JSON object of the format", element)
			}
			return
		}
		r := csvRow{in: in, names: []string{"jobid", "submitted_time", "attempts.start_time", "attempts.end_time",
			"attempts.detail.gpus", "status"}}
		r.column, r.fields = []int{0, 1, 2, 3, 4, 5}, make([][]byte, 6)
		j := p.job(&r)
		switch {
		case !r.ok():
			reject(r.name(r.bad), r.badReason, r.value(r.bad))
		case r.out != "":
			in.report.leaveOut(r.out)
		default:
			in.add(&j, "jobid")
		}
	})
}

// job checks the fields like the fields of a row.
func (p *phillyJob) job(r *csvRow) workload.Job {
	r.fields[0], r.fields[1], r.fields[5] = []byte(p.ID), []byte(p.Submitted), []byte(p.Status)
	j := workload.Job{ID: r.id(0), User: r.in.text([]byte(p.User)), Submit: r.submitClock(1)}
	if !absent([]byte(p.VC)) {
		j.Tenant = r.in.text([]byte(p.VC))
	}
	switch p.Status {
	case "Pass":
		j.Status = workload.Completed
	case "Killed":
		j.Status = workload.Cancelled
	case "Failed":
		j.Status = workload.Failed
	case "":
	default:
		r.fault(5, "is not Pass, Killed or Failed")
	}
	running, started := false, false
	for i := range p.Attempts {
		a := &p.Attempts[i]
		r.fields[2], r.fields[3] = []byte(a.Start), []byte(a.End)
		start, hasStart := r.wallClock(2)
		end, hasEnd := r.wallClock(3)
		if hasStart && !started {
			started = true
			j.Wait, j.HasWait = max(0, start-j.Submit), start >= j.Submit
		}
		running = hasStart && !hasEnd && i == len(p.Attempts)-1
		if hasStart && hasEnd {
			if end < start {
				r.fault(3, "is before the attempt's start")
			}
			j.Duration = min(j.Duration+min(end-start, workload.MaxDuration+1), workload.MaxDuration+1)
		}
		n := 0
		for _, d := range a.Detail {
			n += len(d.GPUs)
		}
		if j.GPUs == 0 {
			j.GPUs, j.Nodes = workload.GPUs(min(n, workload.MaxGPUs+1)), a.nodes(r.in)
		}
	}
	switch {
	case !r.ok():
	case running:
		r.leaveOut(notEnded)
	case !started:
		r.leaveOut(neverRan)
	case j.GPUs == 0:
		r.leaveOut(noGPU)
	case j.GPUs > workload.GPUs(workload.MaxGPUs):
		r.fault(4, tooWide)
	case j.Duration == 0:
		r.leaveOut(tooShort)
	case j.Duration > workload.MaxDuration:
		r.fault(3, "adds up to more than ten years")
	case j.HasWait && j.Wait > workload.MaxDuration:
		j.Wait, j.HasWait = 0, false
	}
	if r.ok() {
		for i := range p.Attempts {
			p.Attempts[i].occupy(r)
		}
	}
	return j
}

// occupy notes the machines of an attempt that ended.
func (a *phillyAttempt) occupy(r *csvRow) {
	r.fields[2], r.fields[3] = []byte(a.Start), []byte(a.End)
	start, hasStart := r.wallClock(2)
	end, hasEnd := r.wallClock(3)
	for _, d := range a.Detail {
		if hasStart && hasEnd && d.Node != "" {
			r.in.occupy(d.Node, len(d.GPUs), start, end)
		}
	}
}

// nodes is the host list of an attempt, empty if a name cannot stand in one.
func (a *phillyAttempt) nodes(in *input) string {
	var names []byte
	for i, d := range a.Detail {
		if d.Node == "" || strings.ContainsAny(d.Node, "[], \r\n") {
			return ""
		}
		if i > 0 {
			names = append(names, ',')
		}
		names = append(names, d.Node...)
	}
	if in.check { // which keeps no texts
		return string(names)
	}
	return in.text(names)
}

// jsonElements cuts a JSON array, or a sequence of JSON values, into its
// elements without holding more than one of them.
type jsonElements struct {
	in    *input
	text  *bufio.Reader
	buf   []byte
	n     int // elements so far
	line  int // where the reading is, from 1
	from  int // where the element began
	array bool
	begun bool // something was read
	ended bool // the array was closed
	// member says that the array is part of an object, whose rest is left unread.
	member bool
}

// Bounds of an element: the deepest job has five levels.
const (
	maxDepth    = 32
	longElement = 64 // times the longest line
)

// each counts each element as a row and calls take with it, and whether it is the beginning of one that is too long.
func (s *jsonElements) each(take func(element []byte, long bool)) error {
	for {
		element, long, err := s.next()
		if err != nil {
			return fmt.Errorf("line %d: %w", s.line, err)
		}
		if element == nil {
			return nil
		}
		s.in.line = s.from
		if err := s.in.row(); err != nil {
			return err
		}
		if take(element, long); s.in.strict != nil {
			return s.in.strict
		}
	}
}

// next returns the next element, nil at the end. It is valid until the next
// call. Of an element that is too long it is the beginning.
func (s *jsonElements) next() (element []byte, long bool, err error) {
	comma := false
	for {
		c, err := s.text.ReadByte()
		if err == io.EOF {
			if s.array && !s.ended {
				return nil, false, fmt.Errorf("the JSON array is not closed: the file is cut short: %w",
					io.ErrUnexpectedEOF)
			}
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		switch {
		case c == '\n':
			s.line++
		case c == ' ' || c == '\t' || c == '\r':
		case s.ended:
			return nil, false, fmt.Errorf("%w: there is text after the end of the JSON array", ErrFormat)
		case c == '[' && !s.begun:
			s.array, s.begun = true, true
		case c == ']' && s.array && !comma:
			if s.ended = true; s.member {
				return nil, false, nil
			}
		case c == ',' && s.n > 0 && !comma:
			comma = true
		case s.array && s.n > 0 && !comma:
			return nil, false, fmt.Errorf("%w: a comma is missing between two jobs", ErrFormat)
		case c == '{' || c == '[':
			s.begun = true
			return s.nested(c)
		default:
			return nil, false, fmt.Errorf("%w: expected a job, a JSON object, but there is %q",
				ErrFormat, string(rune(c)))
		}
	}
}

// nested reads on to the end of an object or array.
func (s *jsonElements) nested(c byte) (element []byte, long bool, err error) {
	s.buf, s.from = s.buf[:0], s.line
	s.n++
	most := longElement * s.in.opts.MaxLine
	depth, quoted, escaped := 0, false, false
	for {
		if len(s.buf) < most {
			s.buf = append(s.buf, c)
		} else {
			long = true
		}
		switch {
		case c == '\n':
			s.line++
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return nil, false, fmt.Errorf("%w: JSON nested deeper than %d", ErrLimit, maxDepth)
			}
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return s.buf, long, nil
			}
		}
		if c, err = s.text.ReadByte(); err != nil {
			if err == io.EOF {
				err = fmt.Errorf("the JSON ends inside a job: the file is cut short: %w", io.ErrUnexpectedEOF)
			}
			return nil, false, err
		}
	}
}
