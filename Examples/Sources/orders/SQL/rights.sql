CREATE ROLE web LOGIN;
GRANT reachable_pusher TO web;
GRANT INSERT ON orders TO web;
CREATE ROLE sender LOGIN;
GRANT reachable_worker TO sender;
