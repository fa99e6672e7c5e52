-- Confirmed orders that the OMS has not registered are counted every few seconds; they are few.

-- +goose Up
CREATE INDEX states_order_unregistered ON states_order (position) WHERE state ->> 'omsSync' = 'pending';

-- +goose Down
DROP INDEX states_order_unregistered;
