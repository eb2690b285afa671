package trace

import (
	"slices"
	"time"

	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/workload"
)

// Report counts the rows of a trace by outcome. Nothing is dropped
// silently: Rows + Expanded = Jobs + Rejected + LeftOut + Merged.
type Report struct {
	File string `json:"file"`
	// Files lists the files read, if there are several; Ignored the other ones:
	// files of a folder that are no trace, and all but the first list of machines.
	Files       []string  `json:"files,omitempty"`
	Ignored     []string  `json:"ignored_files,omitempty"`
	Format      string    `json:"format"`
	Compressed  bool      `json:"compressed"`
	Compression string    `json:"compression,omitempty"` // "gzip" or "zstd"
	Synthetic   bool      `json:"synthetic"`
	Zero        time.Time `json:"zero"`
	// Columns are Options.Columns, and how their instants were read.
	Columns Columns `json:"columns,omitempty"`
	// Zone is Options.Zone if the trace has times without one.
	Zone  string `json:"timezone,omitempty"`
	Bytes int64  `json:"bytes"` // after decompression
	Rows  int    `json:"rows"`  // below the header; in JSON, the elements
	Jobs  int    `json:"jobs"`
	// Running is how many of the jobs had not ended (workload.Running).
	Running int `json:"running,omitempty"`
	// Pending is how many of the jobs had not started (workload.Pending).
	Pending  int `json:"pending,omitempty"`
	Rejected int `json:"rejected"` // rows with a fault
	// LeftOut is the number of jobs that are without fault but cannot be
	// replayed: jobs without GPUs, or that never ran.
	LeftOut int `json:"left_out"`
	// Merged is the number of rows that belong to the job of another row:
	// attempts, tasks, instances.
	Merged int `json:"merged"`
	// Expanded is how many more jobs than rows there are in rows that stand for several jobs: the waiting part of a job
	// array.
	Expanded int `json:"expanded,omitempty"`
	// Unsorted is the number of jobs submitted before the job of the row above
	// them. Jobs are sorted by submission; equal ones keep the file's order.
	Unsorted int `json:"unsorted"`
	// First are the first rejected rows (Options.KeepRejected of them).
	First []Rejection `json:"first_rejected,omitempty"`
	// Reasons count all rejected rows, in order of first appearance.
	Reasons        []RejectionCount `json:"reasons,omitempty"`
	LeftOutReasons []ReasonCount    `json:"left_out_reasons,omitempty"`
	// Machines are the machines of the trace's own cluster, if a list of them is among
	// its files or, with Declared, the trace states them.
	Machines []workload.NodeGroup `json:"machines,omitempty"`
	Declared bool                 `json:"declared_machines,omitempty"`
	Held     Held                 `json:"held"`
	// Notes are what the reader had to assume, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// maxNotes bounds the notes on a hostile trace.
const maxNotes = 20

// note adds a sentence on something that the reader had to assume, once.
func (in *input) note(text string) {
	if r := in.report; len(r.Notes) < maxNotes && !slices.Contains(r.Notes, text) {
		r.Notes = append(r.Notes, text)
	}
}

// Rejection is one row that could not be used.
type Rejection = lines.Rejection

// RejectionCount is how many rows were rejected for one reason.
type RejectionCount = lines.RejectionCount

// ReasonCount is how many jobs were left out for one reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Jobs   int    `json:"jobs"`
}

func (r *Report) reject(x Rejection, keep int) {
	all := lines.Rejections{Rejected: r.Rejected, First: r.First, Reasons: r.Reasons}
	all.Add(x, keep)
	r.Rejected, r.First, r.Reasons = all.Rejected, all.First, all.Reasons
}

// Why jobs are left out. They are fixed sentences, so that they can be counted.
const (
	noGPU    = "it asks for no GPU"
	neverRan = "it never ran"
	notEnded = "it has not ended"
	tooShort = "it ran for less than a second"
)

func (r *Report) leaveOut(reason string) { r.leaveOutMany(reason, 1) }

func (r *Report) leaveOutMany(reason string, jobs int) {
	r.LeftOut += jobs
	for i := range r.LeftOutReasons {
		if c := &r.LeftOutReasons[i]; c.Reason == reason {
			c.Jobs += jobs
			return
		}
	}
	r.LeftOutReasons = append(r.LeftOutReasons, ReasonCount{Reason: reason, Jobs: jobs})
}
