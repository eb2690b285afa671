package main

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/code"
)

// reasons are the reasons of the service's errors besides the names of the codes, with the caller's remedy. A test of
// api/server compares them with the errors.
var reasons = []struct {
	reason string
	code   code.Code
	remedy string
}{
	{"ALREADY_EXISTS", code.Code_ALREADY_EXISTS,
		"Take another id, or update what is there."},
	{"BUDGET_EXHAUSTED", code.Code_FAILED_PRECONDITION,
		"Stop asking for trials: the budget of the study is used."},
	{"CANCELED", code.Code_CANCELLED,
		"None: the caller ended the call."},
	{"CHANGED_MEANWHILE", code.Code_ABORTED,
		"Send the request again: the study changed while it was done."},
	{"CONFIGURATION_REFUSED", code.Code_FAILED_PRECONDITION,
		"Unpark the values, or take others: they are parked."},
	{"CORRUPT_RECORD", code.Code_DATA_LOSS,
		"Restore the store from a backup ([what a damaged store costs](../operations.md#what-a-damaged-store-costs))."},
	{"DEADLINE_EXCEEDED", code.Code_DEADLINE_EXCEEDED,
		"Send the request again with more time."},
	{"DELETED", code.Code_FAILED_PRECONDITION,
		"Undelete the scheduler."},
	{"DISK_FULL", code.Code_RESOURCE_EXHAUSTED,
		"Free disk space; send the request again then."},
	{"EPOCH_MISMATCH", code.Code_FAILED_PRECONDITION,
		"Read the configuration again: the store is another one ([epochs](../service.md#epochs))."},
	{"ETAG_MISMATCH", code.Code_ABORTED,
		"Read the resource again, and decide again."},
	{"LEADER_LOST", code.Code_UNAVAILABLE,
		"Read whether it was made, or send it again with the same `request_id` ([several nodes](../nodes.md))."},
	{"NO_CURRENT_CONFIGURATION", code.Code_FAILED_PRECONDITION,
		"Approve a proposal, or roll back to a revision."},
	{"NO_LEADER", code.Code_UNAVAILABLE,
		"Send the request again, to any node: another one takes over soon ([several nodes](../nodes.md))."},
	{"NO_POWER_MODEL", code.Code_FAILED_PRECONDITION,
		"Start the service with `--energy-file`, or take another objective."},
	{"NOT_ALLOWED", code.Code_PERMISSION_DENIED,
		"Call as a caller whose role may ([access](../operations.md#access))."},
	{"NOT_FOUND", code.Code_NOT_FOUND,
		"Check the name."},
	{"NOT_IDENTIFIED", code.Code_UNAUTHENTICATED,
		"Send a certificate or a token that the service knows ([access](../operations.md#access))."},
	{"OUTSIDE_SPACE", code.Code_FAILED_PRECONDITION,
		"Take other values: those of the trial or revision are outside of the present space."},
	{"QUARANTINED", code.Code_FAILED_PRECONDITION,
		"Restore the scheduler from a backup: its records cannot be read."},
	{"QUOTA_EXCEEDED", code.Code_RESOURCE_EXHAUSTED,
		"Wait as RetryInfo says, or send less at a time ([limits](../operations.md#limits))."},
	{"REQUEST_ID_REUSED", code.Code_ALREADY_EXISTS,
		"Take a new `request_id`: another request had it."},
	{"RESYNC", code.Code_OUT_OF_RANGE,
		"Watch again without `resume_token` and with `send_initial_events`."},
	{"REVISION_MISMATCH", code.Code_ABORTED,
		"Read what is on offer again, and decide again."},
	{"SHUTTING_DOWN", code.Code_UNAVAILABLE,
		"Send the request again, to the service that starts next."},
	{"SPACE_EXHAUSTED", code.Code_FAILED_PRECONDITION,
		"Stop asking for trials: every configuration was suggested."},
	{"STALE_WRITER", code.Code_ABORTED,
		"Restart the service: another process changed its store."},
	{"STUDY_LIMIT", code.Code_RESOURCE_EXHAUSTED,
		"Delete studies, or complete trials; report fewer measurements of a trial."},
	{"TELEMETRY_LIMIT", code.Code_RESOURCE_EXHAUSTED,
		"Send fewer [training steps](../telemetry.md#in-the-service) an hour, such as every tenth, and none again that are stored."},
	{"TOO_MANY_INSTANCES", code.Code_RESOURCE_EXHAUSTED,
		"Forget instances that are gone."},
	{"TOO_MANY_QUESTIONS", code.Code_RESOURCE_EXHAUSTED,
		"Wait for the answer of the questions or rounds under way."},
	{"UNUSABLE_JOBS", code.Code_INVALID_ARGUMENT,
		"Change the jobs: the message says what cannot be kept."},
	{"WORKLOAD_LIMIT", code.Code_RESOURCE_EXHAUSTED,
		"Delete [workloads](../service.md#workloads), or keep fewer jobs."},
	{"WRONG_STATE", code.Code_FAILED_PRECONDITION,
		"Read the resource again: its state does not allow the request."},
}

// errorsPage is the page of reasons.
func errorsPage() string {
	var out strings.Builder
	fmt.Fprint(&out, `# Reasons of errors

Generated from api/reference by `+"`make proto`"+`. Every error has a google.rpc.ErrorInfo of the domain `+"`autosched`"+`: its
reason is one of these or the name of its code, such as INVALID_ARGUMENT, whose google.rpc.BadRequest names the fields.
Its metadata name the method and, where the request names one, the scheduler. UNAVAILABLE and RESOURCE_EXHAUSTED have a
google.rpc.RetryInfo where the same request may succeed later.

| reason | code | what to do |
| --- | --- | --- |
`)
	for _, r := range reasons {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", r.reason, r.code, r.remedy)
	}
	return out.String()
}
