// Package catalogue knows every event of the platform: the write side's and the process managers'.
package catalogue

import (
	"andes/commands"
	"andes/eventstore"
	"andes/sagas"
)

// Registry registers every aggregate and process manager.
func Registry() (*eventstore.Registry, error) {
	return eventstore.NewRegistry(append(commands.All(), sagas.All()...)...)
}
