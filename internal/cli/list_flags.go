package cli

import "github.com/spf13/cobra"

// ListFlags are the flags of lists of the service.
type ListFlags struct{ Filter, OrderBy string }

// Add adds the flags with an example of each; a list without one of an order has none.
func (l *ListFlags) Add(cmd *cobra.Command, filter, orderBy string) {
	cmd.Flags().StringVar(&l.Filter, "filter", "", "only those that match, such as '"+filter+"' (docs/service.md)")
	if orderBy != "" {
		cmd.Flags().StringVar(&l.OrderBy, "order-by", "", "fields to sort by, such as '"+orderBy+"'")
	}
}
