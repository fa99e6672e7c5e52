-- Positions are allotted under this lock, so position order is commit order. The key is the schema's
-- and the shard's, so that installations in one database do not wait for each other. The notification
-- reaches the relay when the transaction commits.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/shard', $1)), pg_notify('andes_' || current_schema(), '')
