package explain

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autosched/autosched/causal"
	"github.com/autosched/autosched/causal/render"
	"github.com/autosched/autosched/internal/cli"
)

func newExplainCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Learn and inspect causal models of parameters, metrics and objectives",
		Long: `From a table of measured configurations (a row each: what was set, the workload it
met, what the system did, how good that was) learn a causal graph: which
parameters change which metrics, and which metrics change the objectives.

  autosched explain learn --data runs.csv --tiers tiers.json --out graph.json
  autosched explain show graph.json
  autosched explain show graph.json --format html --out graph.html

and a model that predicts: what parameters do, what setting one would do, why two
runs differ.

  autosched explain effects --data runs.csv --tiers tiers.json
  autosched explain whatif --data runs.csv --tiers tiers.json --set queues=3
  autosched explain compare --data runs.csv --tiers tiers.json --a 17 --b 42
  autosched explain page --data runs.csv --tiers tiers.json --out model.html`,
	}
	cmd.AddCommand(newCausalCompareCmd(), newCausalDatasetCmd(), newCausalEffectsCmd(), newCausalLearnCmd(),
		newCausalPageCmd(), newCausalShowCmd(), newCausalWhatIfCmd())
	return cmd
}

// readTable reads a table, "-" for standard input.
func readTable(cmd *cobra.Command, path string, kinds map[string]causal.Kind) (*causal.Table, error) {
	return cli.ReadInput(cmd, path, func(r io.Reader) (*causal.Table, error) { return causal.ReadCSV(r, kinds) })
}

// readTiers reads a tiers file.
func readTiers(path string) (*causal.Spec, error) { return cli.ReadFile(path, causal.ReadSpec) }

// readGraph reads the JSON of a graph or the text of Tetrad, "-" for standard input.
func readGraph(cmd *cobra.Command, path string) (*causal.Document, error) {
	return cli.ReadInput(cmd, path, render.Read)
}

func writeDocument(w io.Writer, d *causal.Document) error { return d.Write(w) }

// writeGraph writes a graph to a file, or to standard output without one. A failed write leaves no file behind.
func writeGraph(cmd *cobra.Command, path string, d *causal.Document,
	write func(io.Writer, *causal.Document) error) error {
	var b bytes.Buffer
	if err := write(&b, d); err != nil {
		return err
	}
	return writeOut(cmd, path, &b)
}

// writeOut writes a text to the file that --out names, and says so on standard error,
// or to standard output.
func writeOut(cmd *cobra.Command, path string, text *bytes.Buffer) error {
	if path == "" || path == "-" {
		_, err := text.WriteTo(cmd.OutOrStdout())
		return err
	}
	err := cli.WriteFile(path, "--out", func(w io.Writer) error {
		_, err := text.WriteTo(w)
		return err
	})
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", path)
	}
	return err
}
