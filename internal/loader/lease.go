package loader

import (
	"context"
	"fmt"

	"sluice/internal/engine"
)

// errLeaseLost says that another process loads the partition, or may begin to.
var errLeaseLost = engine.ErrLeaseLost

// lease calls work while this process has the partition's lease. The lease only saves double work: the lake's commit
// keeps two loaders apart.
func (p *partition) lease(ctx context.Context, work func(context.Context) error) error {
	if p.l.o.Engine == nil {
		return work(ctx)
	}
	return p.l.o.Engine.WithLease(ctx, fmt.Sprintf("loader.%d", p.id), work)
}
