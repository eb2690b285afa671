package serve

import (
	"os"
	"testing"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
)

// TestMain makes the test binary the command itself when a test starts it as a
// process.
func TestMain(m *testing.M) {
	if os.Getenv("AUTOSCHED_TEST_MAIN") == "1" {
		cli.Main(clitest.NewRoot)
		return
	}
	if dir := os.Getenv(killDir); dir != "" {
		serveForKills(dir)
		return
	}
	if dir := os.Getenv(nodeDir); dir != "" {
		serveNode(dir)
		return
	}
	if file := os.Getenv(natsFile); file != "" {
		serveNATS(file)
		return
	}
	if address := os.Getenv(studyClientOf); address != "" {
		studyClient(address, os.Getenv(studyClientName))
		return
	}
	os.Exit(m.Run())
}
