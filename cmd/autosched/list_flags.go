package main

import "github.com/spf13/cobra"

// listFlags are the flags of lists of the service.
type listFlags struct{ filter, orderBy string }

// add adds the flags with an example of each; a list without one of an order has none.
func (l *listFlags) add(cmd *cobra.Command, filter, orderBy string) {
	cmd.Flags().StringVar(&l.filter, "filter", "", "only those that match, such as '"+filter+"' (docs/service.md)")
	if orderBy != "" {
		cmd.Flags().StringVar(&l.orderBy, "order-by", "", "fields to sort by, such as '"+orderBy+"'")
	}
}
