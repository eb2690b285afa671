package controller_test

import (
	"testing"

	"github.com/autosched/autosched/service/stores"
)

// The records of a service are the same on the store of several nodes.
func TestNodes(t *testing.T) {
	stores.Nodes(t, TestOnce, TestOnceAtATime, TestRequestsAreBounded, TestOperationsSurviveRestart,
		TestEveryChangeHasARecord, TestRepeatedRefusals, TestDeleteAndUndelete, TestPurge, TestApproveAProposal,
		TestRollbackSentAgain, TestRollback, TestModify, TestRestartContinues, TestConcurrentCallersShareACommit,
		TestFailedGroup, TestKeptRounds, TestIngestSortsOut, TestOldEventsAreDropped, TestClockComesBack,
		TestRepeatedAcknowledgementChangesNothing)
}
