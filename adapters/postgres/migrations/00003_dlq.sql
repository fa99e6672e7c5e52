-- What operators did with dead letters. Kafka never deletes one record, so that a letter is done with is
-- a row here; and what was done, by whom and why, is in a log of its own that outlives the letter.

-- +goose Up
CREATE TABLE dlq_settlements (
    consumer   text        NOT NULL COLLATE "C",
    partition  int         NOT NULL, -- of the consumer's DLQ
    "offset"   bigint      NOT NULL,
    action     text        NOT NULL CHECK (action IN ('replayed', 'discarded', 'edited')),
    state      text        NOT NULL CHECK (state IN ('claimed', 'done')),
    run_id     text        NOT NULL,
    actor      text        NOT NULL,
    reason     text        NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    done_at    timestamptz,
    PRIMARY KEY (consumer, partition, "offset")
);

CREATE TABLE audit_log (
    id      bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at      timestamptz NOT NULL,
    actor   text        NOT NULL,
    action  text        NOT NULL COLLATE "C",
    subject text        NOT NULL COLLATE "C",
    run_id  text        NOT NULL COLLATE "C",
    count   bigint      NOT NULL,
    reason  text        NOT NULL,
    detail  text        NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is never changed or deleted' USING ERRCODE = 'AN003';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_log_is_immutable BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

-- +goose Down
DROP TABLE audit_log, dlq_settlements;
DROP FUNCTION refuse_audit_change;
