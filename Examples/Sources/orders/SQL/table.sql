CREATE TABLE orders (number bigint PRIMARY KEY, item text NOT NULL);
