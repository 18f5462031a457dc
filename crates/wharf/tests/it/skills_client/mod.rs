//! Skills read by the client: regular servers, and servers that send what was not agreed.

mod lists;
mod reading;
mod refusals;
mod scripted_skills;
