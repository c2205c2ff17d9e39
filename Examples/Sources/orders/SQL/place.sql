BEGIN;
INSERT INTO orders (number, item) VALUES (:number, :'item');
SELECT reachable_push(
    'send order', json_build_object('number', :number, 'item', :'item')::text, destination => 'warehouse');
COMMIT;
