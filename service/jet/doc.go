// Package jet is the store of a service that runs on several nodes. The writes are a log in a stream of NATS
// JetStream; each node applies it to a directory of its own (store.Options.Replica), so that the node that leads next
// has the records at hand. One node leads and writes.
//
// Every entry names the one before it, and is published with the expectation that the stream ends there. A node that
// leads writes its term first: from then on the entries of earlier leaders are refused by the stream, whatever their
// clocks say. A leader that does not learn whether an entry was stored ends; the next one finds it or not.
//
// Entries carry a hash over the log up to them, which finds damage and entries that a replica has and the log has
// lost. Now and then a node stores an archive of its replica in an object store, and the log before it is removed:
// new nodes, and nodes that were away for long, begin with the archive.
package jet
