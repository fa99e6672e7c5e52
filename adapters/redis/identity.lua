-- Which start of which server answers for the key, and in which history of replication: either changes whenever writes
-- that it acknowledged may be gone.
local server, replication = redis.call('INFO', 'server'), redis.call('INFO', 'replication')
return (string.match(server, 'run_id:(%w+)') or '') .. '.' .. (string.match(replication, 'master_replid:(%w+)') or '')
