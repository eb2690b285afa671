package slurmtext

import (
	"slices"
	"strconv"
	"strings"
)

// An Outcome is how a job ended.
type Outcome int

// Outcomes.
const (
	Undetermined Outcome = iota // it has not ended, or in a state that is not known
	Completed
	Cancelled
	Failed
	TimedOut
	OutOfMemory
)

// A JobState is the state of a job.
type JobState struct {
	Name    string // Slurm's, such as COMPLETED; perhaps cut off
	Ended   bool
	Outcome Outcome
}

// ParseJobState reads a state of sacct, such as COMPLETED or CANCELLED by 1000. job_state_string in
// src/common/slurm_protocol_defs.c has the names, job_state_string_complete there adds flags behind a comma, and narrow
// columns cut them off with a plus sign (src/common/print_fields.c). A state that is not known is one of a job that has
// ended. A preempted job that is not requeued was cancelled by Slurm. slurmdbd's tables have the numbers of enum
// job_states in slurm/slurm.h, perhaps with flags of higher bits.
func ParseJobState(text string) JobState {
	name, _, _ := strings.Cut(text, " ")
	name, _, _ = strings.Cut(name, ",")
	if n, err := strconv.ParseUint(name, 10, 32); err == nil {
		switch base := n & 0xff; {
		case n&requeueFlag != 0:
			name = "REQUEUED"
		case n&resizingFlag != 0:
			name = "RESIZING"
		case base < uint64(len(jobStates)):
			name = jobStates[base]
		}
	}
	s := JobState{Name: strings.TrimRight(name, "+"), Ended: true}
	switch s.Name {
	case "COMPLETED":
		s.Outcome = Completed
	case "CANCELLED", "PREEMPTED", "REVOKED":
		s.Outcome = Cancelled
	case "TIMEOUT":
		s.Outcome = TimedOut
	case "FAILED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED":
		s.Outcome = Failed
	case "OUT_OF_MEMORY", "OUT_OF_ME":
		s.Outcome = OutOfMemory
	case "PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESIZING",
		"CONFIGURING", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT", "RESV_DEL_HOLD", "POWER_UP_NODE",
		"RECONFIG_FAIL", "UPDATE_DB", "EXPEDITING":
		s.Ended = false
	}
	return s
}

// jobStates are the names of Slurm's job states by number.
var jobStates = [...]string{"PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT",
	"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}

// Flags of slurm/slurm.h in the number of a state.
const requeueFlag, resizingFlag = 1 << 10, 1 << 13

// A NodeState is the use that the scheduler can make of a node.
type NodeState int

// Node states.
const (
	Up       NodeState = iota // jobs run and start
	Draining                  // jobs run, and none starts
	Down                      // no job runs
	Future                    // the node does not exist yet
)

// The names by their meaning: bases and flags of scontrol show node, and short forms of sinfo and sacctmgr show event.
var (
	downStates  = []string{"DOWN", "FAIL", "FAILING", "ERROR", "UNKNOWN", "NOT_RESPONDING"}
	drainStates = []string{"DRAIN", "DRAINING", "DRAINED", "MAINT", "MAINTENANCE", "INVAL", "INVALID_REG"}
)

// ParseNodeState reads a state by the parts between plus signs, such as IDLE+DRAIN, DOWN* or IDLE+CLOUD+POWERED_DOWN;
// signs behind a part are left out. node_state_string and node_state_string_complete in
// src/common/slurm_protocol_defs.c write it. A node that saves power is up, as Slurm starts it for a job.
func ParseNodeState(text string) NodeState {
	state := Up
	for part := range strings.SplitSeq(strings.ToUpper(text), "+") {
		part = strings.TrimRight(part, "*~#!%$@^-")
		switch {
		case part == "FUTURE", part == "DYNAMIC_FUTURE":
			return Future
		case slices.Contains(downStates, part):
			state = Down
		case slices.Contains(drainStates, part):
			state = max(state, Draining)
		}
	}
	return state
}
