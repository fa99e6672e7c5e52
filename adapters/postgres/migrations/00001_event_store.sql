-- The event store: the log, the states folded from it, and what belongs to a command's transaction.
-- Text that is compared byte by byte is COLLATE "C": SKUs must not be equal by a locale's rules.

-- +goose Up

-- The positions of shard 0. They are drawn under the shard's advisory lock only, which is what makes
-- position order the order of commits. An aborted transaction burns positions; readers ask for what is
-- behind their checkpoint, so a hole hides nothing. A further shard brings a sequence of its own.
CREATE SEQUENCE position_0;

CREATE TABLE events (
    shard       smallint    NOT NULL,
    position    bigint      NOT NULL,
    stream      text        NOT NULL COLLATE "C", -- category/key
    version     bigint      NOT NULL CHECK (version > 0),
    id          uuid        NOT NULL,
    type        text        NOT NULL COLLATE "C",
    schema      smallint    NOT NULL,
    data        json        NOT NULL, -- json, not jsonb: kept byte for byte
    meta        json        NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (shard, position),
    CONSTRAINT events_stream_version UNIQUE (stream, version),
    CONSTRAINT events_id UNIQUE (id)
);

-- +goose StatementBegin
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'events are never changed or deleted' USING ERRCODE = 'AN002';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER events_are_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The state of every stream, written in the transaction of its events. Categories with a rhythm of
-- their own have a partition; a new category needs none.
CREATE TABLE states (
    category text   NOT NULL COLLATE "C",
    key      text   NOT NULL COLLATE "C",
    version  bigint NOT NULL,
    position bigint NOT NULL, -- of the last event in it
    owner    text   NOT NULL COLLATE "C",
    state    json, -- null: deleted
    PRIMARY KEY (category, key)
) PARTITION BY LIST (category);

-- Room on each page keeps updates in place (heap-only tuples): no index is touched.
CREATE TABLE states_stock       PARTITION OF states FOR VALUES IN ('stock')       WITH (fillfactor = 50);
CREATE TABLE states_price       PARTITION OF states FOR VALUES IN ('price')       WITH (fillfactor = 80);
CREATE TABLE states_product     PARTITION OF states FOR VALUES IN ('product')     WITH (fillfactor = 90);
CREATE TABLE states_order       PARTITION OF states FOR VALUES IN ('order')       WITH (fillfactor = 70);
CREATE TABLE states_reservation PARTITION OF states FOR VALUES IN ('reservation') WITH (fillfactor = 70);
CREATE TABLE states_payment     PARTITION OF states FOR VALUES IN ('payment')     WITH (fillfactor = 70);
CREATE TABLE states_other       PARTITION OF states DEFAULT                       WITH (fillfactor = 70);

-- What is listed by owner has the index; the hot partitions do not pay for it.
CREATE INDEX states_order_owner ON states_order (owner, position);
CREATE INDEX states_other_owner ON states_other (category, owner) WHERE owner <> '';

-- +goose StatementBegin
CREATE FUNCTION require_rows(got bigint, want bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF got <> want THEN
        RAISE EXCEPTION 'a stream has another version than expected' USING ERRCODE = 'AN001';
    END IF;
END
$$;
-- +goose StatementEnd

CREATE TABLE answers (
    scope       text        NOT NULL COLLATE "C", -- the partner
    key         text        NOT NULL COLLATE "C", -- its idempotency key
    fingerprint bytea       NOT NULL,
    status      smallint    NOT NULL,
    body        bytea       NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX answers_expiry ON answers (expires_at);

CREATE TABLE deadlines (
    id            text        PRIMARY KEY COLLATE "C", -- saga/key/name
    saga          text        NOT NULL,
    key           text        NOT NULL,
    name          text        NOT NULL,
    due           timestamptz NOT NULL,
    meta          json        NOT NULL,
    claimed_until timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX deadlines_due ON deadlines (due);

CREATE TABLE checkpoints (
    name     text     NOT NULL,
    shard    smallint NOT NULL,
    position bigint   NOT NULL,
    PRIMARY KEY (name, shard)
) WITH (fillfactor = 10);

-- +goose Down
DROP TABLE checkpoints, deadlines, answers, states, events;
DROP SEQUENCE position_0;
DROP FUNCTION require_rows, refuse_change;
